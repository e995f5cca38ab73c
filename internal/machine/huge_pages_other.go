//go:build !linux

package machine

import "errors"

func canGather() error { return errors.ErrUnsupported }

func gather(uintptr, uintptr) error { return errors.ErrUnsupported }

func pagesInUse(uintptr, []byte) error { return errors.ErrUnsupported }
