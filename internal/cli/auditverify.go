package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newAuditVerify(a *app) *cobra.Command {
	var head string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Verify that no record was changed, added or removed",
		Long: `Verify that no record of the audit log was changed, added or removed. Each record holds the
hash of the record before it, so a change requires rewriting all later records. Somebody with
access to the database can do that, or remove the newest records; only a head that is kept
elsewhere shows it. Keep the head that this command prints, and pass it with --head later. The
exit code is 1 if the chain does not match.`,
		Example: "admin audit verify\nadmin audit verify --head 812:9f2c...",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("head") {
				if _, err := audit.ParseHead(head); err != nil {
					return usagef("--%w", err)
				}
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			v, err := client.VerifyAudit(c.Context(), head)
			if err != nil {
				return err
			}
			if err := output.One(a.printer(), *v, verificationColumns); err != nil {
				return err
			}
			if !v.Intact {
				return &exitError{code: Failed}
			}
			return nil
		},
	}
	c.Flags().StringVar(&head, "head", "", "a head that was kept: is it still in the chain?")
	return c
}

var verificationColumns = []output.Column[wire.AuditVerification]{
	{Name: "intact", Head: "Intact", Cell: func(v wire.AuditVerification) output.Cell {
		words := map[bool]string{true: "yes", false: "NO"}
		return output.Words(words[v.Intact], strconv.FormatBool(v.Intact))
	}},
	{Name: "problem", Head: "Problem", Cell: func(v wire.AuditVerification) output.Cell { return output.Text(string(v.Problem)) }},
	{Name: "records", Head: "Records", Cell: func(v wire.AuditVerification) output.Cell { return output.Number(v.Records) }},
	{Name: "uncovered", Head: "Older than the chain", Cell: func(v wire.AuditVerification) output.Cell { return output.Number(v.Uncovered) }},
	{Name: "pending", Head: "Not in the chain yet", Cell: func(v wire.AuditVerification) output.Cell { return output.Number(v.Pending) }},
	{Name: "first_at", Head: "First record", Cell: func(v wire.AuditVerification) output.Cell { return output.Time(v.FirstAt.Time) }},
	{Name: "kept", Head: "Kept head", Cell: func(v wire.AuditVerification) output.Cell { return output.Text(string(v.Kept)) }},
	{Name: "head", Head: "Head", Cell: func(v wire.AuditVerification) output.Cell { return output.Text(string(v.Head)) }},
}
