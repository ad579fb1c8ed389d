package models

import (
	"fmt"
	"os"
	"path/filepath"
)

// nearby lists where a file that comes with the program may be: beside the
// executable, in its parent folder (bin/verisci beside models/), and in the
// working directory or any folder above it (tests run in their package's).
func nearby(rel string) []string {
	var out []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		out = append(out, filepath.Join(filepath.Dir(exe), rel), filepath.Join(filepath.Dir(exe), "..", rel))
	}
	if dir, err := os.Getwd(); err == nil {
		for ; ; dir = filepath.Dir(dir) {
			out = append(out, filepath.Join(dir, rel))
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return out
}

// FindBundle gives the folder of a bundle: name itself where it is a folder
// with a bundle.json, or else models/bundles/name near the program.
func FindBundle(name string) (string, error) {
	tried := append([]string{name}, nearby(filepath.Join("models", "bundles", name))...)
	for _, dir := range tried {
		if _, err := os.Stat(filepath.Join(dir, specFile)); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("models: no bundle %q: neither a folder with a %s nor a name under models/bundles (tried %q)", name, specFile, tried)
}
