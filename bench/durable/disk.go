package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/bench/internal/stat"
)

// tempDir makes a folder on a disk, and returns what to remove it with. A file
// system in memory would make durability free.
func tempDir() (dir string, remove func(), err error) {
	for _, parent := range []string{os.TempDir(), "/var/tmp", "."} {
		if inMemory(parent) {
			continue
		}
		dir, err := os.MkdirTemp(parent, "durable-*")
		if err != nil {
			continue
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return "", nil, err
		}
		return dir, func() { os.RemoveAll(dir) }, nil
	}
	return "", nil, fmt.Errorf("no folder on a disk: %s is in memory or not writable: set TMPDIR to one that is", os.TempDir())
}

// flushCost returns what it takes, in the median, to append a page to a file
// in a folder and have it on the disk.
func flushCost(dir string) (cost time.Duration, err error) {
	f, err := os.CreateTemp(dir, "flush-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 4096)
	var times []float64
	for range 200 {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(start)))
	}
	return time.Duration(stat.Median(times)), nil
}
