package db

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stint-dev/stint/internal/audit"
)

const (
	ReadChainHead   = `SELECT id, hash FROM audit_chain ORDER BY id DESC LIMIT 1`
	ReadAnchor      = `SELECT entry_id, hash FROM audit_anchor WHERE id = 1`
	countBehindHead = `SELECT count(*) FROM audit WHERE id > $1`
	addToChain      = `INSERT INTO audit_chain (id, hash) `
)

// ChainBatch is how many records are read at once.
const ChainBatch = maxBulkRows

// chainColumns are the types of a link's columns.
var chainColumns = []string{IntColumn, BytesColumn}

// ChainAudit adds every record that is not in the chain yet. The revision row is locked, so the
// order of the records is that of their ids.
func (t *Tx) ChainAudit() error {
	head, err := t.chainHead()
	if err != nil {
		return err
	}
	own, err := hasOnlyOwnRecords(t, head)
	if err != nil {
		return err
	}
	written := t.records
	t.records = nil
	if own {
		_, err := addLinks(t, head, written)
		return err
	}
	for {
		records, err := Each(t, ScanRecord, RecordColumns+"id > $1 ORDER BY id LIMIT $2", head.ID, ChainBatch)
		if err != nil {
			return err
		}
		if head, err = addLinks(t, head, records); err != nil {
			return err
		}
		if len(records) < ChainBatch {
			return nil
		}
	}
}

// hasOnlyOwnRecords reports whether the records after the head are exactly those of this
// transaction, and sorts them. Then they can be hashed as they were written: the hash uses
// texts, bytes and whole milliseconds, which both databases store unchanged. Records of a node
// that does not write the chain are read from the database.
func hasOnlyOwnRecords(t *Tx, head audit.Link) (bool, error) {
	var behind int64
	if _, err := t.One(countBehindHead, []any{head.ID}, &behind); err != nil {
		return false, err
	}
	slices.SortFunc(t.records, func(a, b *audit.Record) int { return cmp.Compare(a.ID, b.ID) })
	last := head.ID
	for _, e := range t.records {
		if e.ID <= last {
			return false, nil
		}
		last = e.ID
	}
	return behind == int64(len(t.records)), nil
}

// addLinks adds links for records that follow head, and returns the new head.
func addLinks(t *Tx, head audit.Link, records []*audit.Record) (audit.Link, error) {
	links := make([][]any, len(records))
	for i, e := range records {
		head = audit.Link{ID: e.ID, Hash: e.Hash(head.Hash)}
		links[i] = []any{head.ID, bytes.Clone(head.Hash[:])}
	}
	return head, t.Upsert(addToChain, "", chainColumns, links)
}

// chainHead returns the newest link, or the anchor if there is none.
func (t *Tx) chainHead() (audit.Link, error) {
	head, found, err := t.Link(ReadChainHead)
	if err != nil || found {
		return head, err
	}
	head, _, err = t.Link(ReadAnchor)
	return head, err
}

func (t *Tx) Link(query string, args ...any) (l audit.Link, found bool, err error) {
	var hash []byte
	found, err = t.One(query, args, &l.ID, &hash)
	if err == nil && len(hash) == len(l.Hash) {
		l.Hash = audit.Hash(hash)
	}
	return l, found, err
}
