// SPDX-License-Identifier: MIT

package holdfast

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain is also the main function of the processes that TestProcesses starts.
func TestMain(m *testing.M) {
	if url := os.Getenv("HOLDFAST_GO_CHILD"); url != "" {
		if err := child(url, os.Getenv("HOLDFAST_GO_FILE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const childRounds = 60

// child adds to a number in a file, without any other protection than the lock.
func child(url, path string) error {
	ctx, cancel := context.WithTimeout(bg, 2*patience)
	defer cancel()
	store, err := Open(ctx, url)
	if err != nil {
		return err
	}
	for i := 0; i < childRounds; i++ {
		lease, err := store.Lock(ctx, "file")
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		time.Sleep(100 * time.Microsecond)
		if err := os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			return err
		}
		if err := lease.Release(); err != nil {
			return err
		}
	}
	fmt.Println("done")
	return store.Close()
}

func TestProcesses(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url) // while children are started: their descriptors must not be ours
		lease, err := store.Lock(patient(t), "file")
		must(t, err)
		path := filepath.Join(t.TempDir(), "number")
		must(t, os.WriteFile(path, []byte("0"), 0o600))
		var all sync.WaitGroup
		for i := 0; i < 3; i++ {
			command := exec.Command(os.Args[0], "-test.run=^$")
			command.Env = append(os.Environ(), "HOLDFAST_GO_CHILD="+url, "HOLDFAST_GO_FILE="+path)
			command.Stderr = os.Stderr
			out, err := command.StdoutPipe()
			must(t, err)
			must(t, command.Start())
			all.Add(1)
			go func() {
				defer all.Done()
				line, _ := bufio.NewReader(out).ReadString('\n')
				if err := command.Wait(); err != nil || line != "done\n" {
					t.Error(line, err)
				}
			}()
		}
		text, err := os.ReadFile(path)
		must(t, err)
		equal(t, string(text), "0")
		must(t, lease.Release())
		all.Wait()
		text, err = os.ReadFile(path)
		must(t, err)
		equal(t, string(text), 3*childRounds)
	})
}
