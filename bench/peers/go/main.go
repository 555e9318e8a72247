// SPDX-License-Identifier: MIT

// Peers written in Go. Orders and answers: ../README.md.   peer KIND SERVER TASKS
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A lock of one task, with its own connection.
type lock interface {
	retry(delay time.Duration) // between tries; 0: as it comes
	acquire() error
	release() error
}

var kinds = map[string]func(server string) (lock, error){}

type answer struct {
	Took   float64 `json:"took"`
	Counts []int   `json:"counts"`
	Waits  []int64 `json:"waits"`
	At     []int64 `json:"at"`
	Task   []int   `json:"task"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
}

func pair(l lock, seconds float64) answer {
	start := time.Now()
	count := 0
	for time.Since(start).Seconds() < seconds {
		must(l.acquire())
		must(l.release())
		count++
	}
	return answer{Took: time.Since(start).Seconds(), Counts: []int{count}}
}

func busy(hold time.Duration) {
	for end := time.Now().Add(hold); time.Now().Before(end); {
	}
}

func queue(locks []lock, seconds float64, hold time.Duration, delay time.Duration) answer {
	result := answer{Took: seconds, Counts: make([]int, len(locks))}
	end := time.Now().Add(time.Duration(seconds * 1e9))
	var all sync.WaitGroup
	var mutex sync.Mutex
	for i, l := range locks {
		all.Add(1)
		go func() {
			defer all.Done()
			waits, at := []int64{}, []int64{}
			l.retry(delay)
			for since := time.Now(); since.Before(end); since = time.Now() {
				must(l.acquire())
				if time.Now().Before(end) {
					waits = append(waits, time.Since(since).Microseconds())
					at = append(at, time.Now().UnixMicro())
				}
				busy(hold)
				must(l.release())
			}
			mutex.Lock()
			result.Counts[i] = len(waits)
			result.Waits = append(result.Waits, waits...)
			result.At = append(result.At, at...)
			for range at {
				result.Task = append(result.Task, i)
			}
			mutex.Unlock()
		}()
	}
	all.Wait()
	return result
}

func main() {
	tasks, err := strconv.Atoi(os.Args[3])
	must(err)
	locks := make([]lock, tasks)
	for i := range locks {
		locks[i], err = kinds[os.Args[1]](os.Args[2])
		must(err)
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		numbers := []float64{}
		for _, word := range words[1:] {
			number, err := strconv.ParseFloat(word, 64)
			must(err)
			numbers = append(numbers, number)
		}
		var result answer
		if words[0] == "pair" {
			result = pair(locks[0], numbers[0])
		} else {
			result = queue(locks, numbers[0], time.Duration(numbers[1]*1e3), time.Duration(numbers[2]*1e6))
		}
		text, err := json.Marshal(result)
		must(err)
		fmt.Println(string(text))
	}
}
