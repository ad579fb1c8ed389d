package models

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// LibraryEnv names the shared library of ONNX Runtime where the configuration does not.
const LibraryEnv = "VERISCI_ONNXRUNTIME"

// startup guards ONNX Runtime's own process-wide environment, which can be
// started once and, by its documentation, need not be stopped.
var startup sync.Mutex

// Start loads ONNX Runtime's shared library (1.24 or newer) and reports its
// version. library may be empty: then LibraryEnv, lib/ and bin/lib/ near the
// program (where `make runtime` puts it) and the system's library path are
// tried in turn. A second call changes nothing.
func Start(library string) (version string, err error) {
	startup.Lock()
	defer startup.Unlock()
	if ort.IsInitialized() {
		return ort.GetVersion(), nil
	}
	tried := libraryCandidates(library)
	for _, path := range tried {
		if filepath.IsAbs(path) {
			if _, err := os.Stat(path); err != nil {
				continue
			}
		}
		ort.SetSharedLibraryPath(path)
		if e := ort.InitializeEnvironment(ort.WithLogLevelError()); e != nil {
			err = fmt.Errorf("models: ONNX Runtime in %s: %w", path, e)
			if filepath.IsAbs(path) {
				return "", err
			}
			continue
		}
		return ort.GetVersion(), nil
	}
	return "", errors.Join(fmt.Errorf("models: ONNX Runtime's shared library was not found (tried %q): run `make runtime`, or set %s to the path of libonnxruntime.so", tried, LibraryEnv), err)
}

func libraryCandidates(explicit string) []string {
	for _, p := range []string{explicit, os.Getenv(LibraryEnv)} {
		if p != "" {
			if abs, err := filepath.Abs(p); err == nil {
				p = abs
			}
			return []string{p}
		}
	}
	name := "libonnxruntime.so"
	if runtime.GOOS == "darwin" {
		name = "libonnxruntime.dylib"
	}
	out := append(nearby(filepath.Join("lib", name)), nearby(filepath.Join("bin", "lib", name))...)
	return append(out, name, name+".1")
}
