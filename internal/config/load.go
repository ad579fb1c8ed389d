package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// EnvPrefix starts the environment variable of every setting.
const EnvPrefix = "VERISCI_"

// Setting describes one key.
type Setting struct {
	Key, Env, Flag, Doc string
	Default             any
}

// Settings lists every key in the order of the struct.
func Settings() []Setting {
	var out []Setting
	root := reflect.ValueOf(Default())
	for i := range root.NumField() {
		section := root.Type().Field(i).Tag.Get("koanf")
		group := root.Field(i)
		for j := range group.NumField() {
			f := group.Type().Field(j)
			key := section + "." + f.Tag.Get("koanf")
			name := f.Tag.Get("flag")
			if name == "" {
				name = strings.NewReplacer(".", "-", "_", "-").Replace(key)
			}
			out = append(out, Setting{
				Key:     key,
				Env:     EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")),
				Flag:    name,
				Doc:     f.Tag.Get("doc"),
				Default: group.Field(j).Interface(),
			})
		}
	}
	return out
}

// AddFlags adds the flags of some sections ("index", "models", ...) or single keys ("index.ranking").
func AddFlags(flags *pflag.FlagSet, sections ...string) {
	for _, s := range Settings() {
		section, _, _ := strings.Cut(s.Key, ".")
		if !slices.Contains(sections, section) && !slices.Contains(sections, s.Key) {
			continue
		}
		switch d := s.Default.(type) {
		case string:
			flags.String(s.Flag, d, s.Doc)
		case int:
			flags.Int(s.Flag, d, s.Doc)
		case float64:
			flags.Float64(s.Flag, d, s.Doc)
		case bool:
			flags.Bool(s.Flag, d, s.Doc)
		case time.Duration:
			flags.Duration(s.Flag, d, s.Doc)
		case []string:
			flags.StringSlice(s.Flag, d, s.Doc)
		}
	}
}

// Load merges, each over the one before: defaults, the YAML file (none where
// path is empty), the environment, and the flags that were given. A key of the
// file that does not exist is an error, and so is anything Validate finds. Other
// variables that start with VERISCI_ are let be: they may be meant for others.
func Load(path string, flags *pflag.FlagSet) (Config, error) {
	k := koanf.New(".")
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("config: %s: %w", path, err)
		}
	}
	byEnv, byFlag := map[string]string{}, map[string]string{}
	for _, s := range Settings() {
		byEnv[s.Env], byFlag[s.Flag] = s.Key, s.Key
	}
	err := k.Load(env.Provider(".", env.Opt{
		Prefix:        EnvPrefix,
		TransformFunc: func(name, value string) (string, any) { return byEnv[name], strings.ReplaceAll(value, ", ", ",") },
	}), nil)
	if err == nil && flags != nil {
		err = k.Load(posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
			if key := byFlag[f.Name]; key != "" && f.Changed {
				return key, posflag.FlagVal(flags, f)
			}
			return "", nil
		}), nil)
	}
	if err != nil {
		return Config{}, fmt.Errorf("config: %w", err)
	}
	c := Default()
	err = k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result:           &c,
		TagName:          "koanf",
		ErrorUnused:      true,
		WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.StringToSliceHookFunc(","),
		),
	}})
	if err != nil {
		return Config{}, fmt.Errorf("config: %w", plain(err))
	}
	return c, c.Validate()
}

// plain takes the Go names out of mapstructure's messages.
func plain(err error) error {
	msg := err.Error()
	msg = strings.ReplaceAll(msg, "'' has invalid keys", "unknown keys")
	return errors.New(msg)
}
