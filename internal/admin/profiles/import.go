package profiles

import (
	"context"
	"crypto/sha256"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/profilelist"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rowfile"
)

// previewPiece is how many rows of a dry run are looked up at once.
const previewPiece = 2000

// ImportOptions configure an import of keys. The zero value imports a CSV, all or nothing.
type ImportOptions struct {
	Format admin.FileFormat
	// SkipBad skips invalid rows instead of importing nothing.
	SkipBad bool
	// DryRun changes nothing and reports what would be done. It counts invalid rows and
	// continues.
	DryRun bool
}

// ImportResult is the result of an import, or the predicted result in a dry run.
type ImportResult struct {
	DryRun bool
	admin.ImportRows
	profiles.ImportResult
	// Limits is how many rows have a limit, which the import leaves out. Rows does not count those
	// that have nothing else.
	Limits int
	// Plans are the plans in the valid rows, the most frequent first.
	Plans []ImportedPlan
	// Changes are the first of the keys that a dry run would create or replace, in the order of
	// the file.
	Changes []ImportChange
}

// UnusedPlans returns the Plans by which no policy selects keys.
func (r *ImportResult) UnusedPlans() []ImportedPlan {
	return slices.DeleteFunc(slices.Clone(r.Plans), func(p ImportedPlan) bool { return p.Policy != "" })
}

// ImportedPlan is a plan in a file.
type ImportedPlan struct {
	Plan   string
	Rows   int
	Policy string // the policy that selects keys by the plan, "" for none
}

// ImportChange is the change of one key by a file.
type ImportChange struct {
	Line   int
	Before *profiles.Profile // nil if the key has no profile
	After  *profiles.Profile
}

// Import reads a file of keys and replaces the plan, the labels and the note of each key;
// limits stay. Mistakes are faults as in admin.Valid; a key that occurs twice is a mistake too.
func (u *Profiles) Import(ctx context.Context, by admin.Caller, file io.Reader, o ImportOptions) (*ImportResult, error) {
	result, plans := &ImportResult{DryRun: o.DryRun}, map[string]int{}
	rows := countPlans(admin.Valid(once(withoutLimits(profilelist.Read(file, o.Format, admin.FilterReading(u.View)), &result.Limits)), &result.ImportRows, o.SkipBad || o.DryRun), plans)
	var err error
	if o.DryRun {
		err = u.preview(ctx, rows, result)
	} else {
		result.ImportResult, err = u.Store.ImportProfiles(ctx, by.Actor, func(yield func(*profiles.Profile, error) bool) {
			for row, err := range rows {
				if !yield(row.Profile, err) {
					return
				}
			}
		})
	}
	if err != nil {
		return nil, err
	}
	selector := u.View.Selector()
	for plan, rows := range plans {
		result.Plans = append(result.Plans, ImportedPlan{plan, rows, policyOf(selector, plan)})
	}
	slices.SortFunc(result.Plans, func(a, b ImportedPlan) int {
		if a.Rows != b.Rows {
			return b.Rows - a.Rows
		}
		return strings.Compare(a.Plan, b.Plan)
	})
	return result, nil
}

// withoutLimits counts the rows with a limit, and leaves out those that have nothing else.
func withoutLimits(rows iter.Seq2[profilelist.Row, error], limits *int) iter.Seq2[profilelist.Row, error] {
	return func(yield func(profilelist.Row, error) bool) {
		for row, err := range rows {
			if err == nil && row.HasLimit {
				*limits++
			}
			if (err != nil || row.Profile != nil) && !yield(row, err) {
				return
			}
		}
	}
}

// once makes a row invalid if an earlier row has the same key: it is unclear which one is
// meant.
func once(rows iter.Seq2[profilelist.Row, error]) iter.Seq2[profilelist.Row, error] {
	return func(yield func(profilelist.Row, error) bool) {
		lines := map[[16]byte]int32{} // by a hash of the key: a million keys would take a hundred megabytes
		for row, err := range rows {
			if err == nil {
				sum := sha256.Sum256([]byte(row.Key))
				if first, twice := lines[[16]byte(sum[:])]; twice {
					err = &rowfile.RowError{Line: row.Line, Problem: "it has the key of line " + strconv.Itoa(int(first)) + "; leave one of the two"}
				} else {
					lines[[16]byte(sum[:])] = int32(row.Line)
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// countPlans counts the rows of each plan while it passes them on.
func countPlans(rows iter.Seq2[profilelist.Row, error], plans map[string]int) iter.Seq2[profilelist.Row, error] {
	return func(yield func(profilelist.Row, error) bool) {
		for row, err := range rows {
			if err == nil && row.Plan != "" {
				plans[row.Plan]++
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// preview counts in batches what the store would do with the rows.
func (u *Profiles) preview(ctx context.Context, rows iter.Seq2[profilelist.Row, error], result *ImportResult) error {
	counts, err := u.Store.CountPlans(ctx)
	if err != nil {
		return err
	}
	keysOf := make(map[string]int, len(counts)) // number of keys of each plan after the import
	for _, c := range counts {
		keysOf[c.Plan] = c.Keys
	}
	var piece []profilelist.Row
	flush := func() error {
		err := u.previewPiece(ctx, piece, keysOf, result)
		piece = piece[:0]
		return err
	}
	for row, err := range rows {
		if err == nil {
			if piece = append(piece, row); len(piece) == previewPiece {
				err = flush()
			}
		}
		if err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	after := 0
	for plan, keys := range keysOf {
		if plan != "" && keys > 0 {
			after++
		}
	}
	return profiles.CheckPlanCount(len(counts), after)
}

func (u *Profiles) previewPiece(ctx context.Context, piece []profilelist.Row, keysOf map[string]int, result *ImportResult) error {
	if len(piece) == 0 {
		return nil
	}
	names := make([]string, len(piece))
	for i, row := range piece {
		names[i] = row.Key
	}
	known, err := u.FindByKeys(ctx, names)
	if err != nil {
		return err
	}
	for _, row := range piece {
		was := known[row.Key]
		if was != nil {
			row.Limit = was.Limit // an import keeps the limit
			keysOf[was.Plan]--
		}
		keysOf[row.Plan]++
		if !result.Count(was, row.Profile) && len(result.Changes) < admin.MaxShown {
			result.Changes = append(result.Changes, ImportChange{row.Line, was, row.Profile})
		}
	}
	return nil
}
