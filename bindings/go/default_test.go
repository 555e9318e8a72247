// SPDX-License-Identifier: MIT

package holdfast

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Without a URL it is the store of HOLDFAST_STORE or of the configuration, and "" is a mistake.
func TestOpenDefault(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte("default = a\n[profile a]\nurl = file:"+dir+"/a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOLDFAST_CONFIG", config)
	is := func(location, source string) func(*Store, error) {
		return func(store *Store, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			info, err := store.Info()
			if err != nil || info.Location != location || info.Source != source {
				t.Fatal(info.Location, info.Source, err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("HOLDFAST_STORE", "file:"+dir+"/env")
	is("file:"+dir+"/env", "HOLDFAST_STORE")(OpenDefault(bg))
	is("file:"+dir+"/a", "profile a in "+config)(Open(bg, "a"))
	if err := os.Unsetenv("HOLDFAST_STORE"); err != nil {
		t.Fatal(err)
	}
	is("file:"+dir+"/a", "profile a in "+config)(OpenDefault(bg))
	is("file:"+dir+"/given", "the caller")(Open(bg, "file:"+dir+"/given"))
	if _, err := Open(bg, ""); !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
}
