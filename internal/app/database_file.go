package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// inUseMark is written to the lock file when a database has been created in the
// folder.
const inUseMark = "This folder holds the database of a Stint.\n"

// markInUse records that a database has been created in the folder.
func (d *dataDir) markInUse() error {
	_, err := d.lock.WriteAt([]byte(inUseMark), 0)
	return err
}

// inUse reports whether a database has been created in the folder before.
func (d *dataDir) inUse() bool {
	if info, err := d.lock.Stat(); err == nil && info.Size() > 0 {
		return true
	}
	_, err := os.Lstat(d.snapshot())
	return err == nil
}

// checkDatabase refuses a damaged database, and a missing one in a folder that was
// in use: a new one would silently allow what was blocked. Its errors are one line
// each.
func (d *dataDir) checkDatabase(ctx context.Context) error {
	empty, err := db.CheckFile(ctx, d.database())
	var unusable *fault.Error
	switch {
	case errors.As(err, &unusable) && unusable.Err != nil:
		return fmt.Errorf("%s cannot be used: %s (%s); %s", d.database(), oneLine(unusable), oneLine(unusable.Err), d.restoreAdvice())
	case err != nil:
		return fmt.Errorf("%s cannot be used: %s; %s", d.database(), oneLine(err), d.restoreAdvice())
	case empty && d.inUse():
		return fmt.Errorf("%s is empty or missing, and other files of the folder say that it was in use; starting would forget every policy and block; %s", d.database(), d.restoreAdvice())
	}
	return nil
}

func (d *dataDir) restoreAdvice() string {
	return fmt.Sprintf("to bring back a backup, move the files of %s elsewhere, start again and run: stint-admin restore FILE", d.path)
}
