package wire

// The paths of what is declared here.
const (
	PathBackup  = "/v1/backup"
	PathRestore = "/v1/restore"
)

// The groups of these operations in the OpenAPI document.
var (
	TagHealth = Tag{"health", "Whether a node is alive and can answer."}
	TagBackup = Tag{"backup", "Backups of the embedded data."}
)

// Readiness says whether a node can answer, and which part cannot.
type Readiness struct {
	// Ready says whether checks are answered; only then the status is 200.
	Ready bool `json:"ready"`
	// Changes says whether changes are taken too: the database answers.
	Changes bool   `json:"changes"`
	Parts   []Part `json:"parts"` // what the node needs
}

// Part is one thing that a node needs.
type Part struct {
	Name string `json:"name"`
	// OK is false if the part fails. A part that a node can do without
	// leaves Ready true.
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitzero"`
	Since  Time   `json:"since,omitzero"` // it fails since then
}

// RestoreAnswer says what a restored backup contains.
type RestoreAnswer struct {
	RestoredAt Time `json:"restored_at,omitzero"` // when the data was replaced; missing in a dry run
	// DryRun says that the backup was only checked.
	DryRun bool   `json:"dry_run"`
	Detail string `json:"detail"`
}

// Restoration says how a backup is restored.
type Restoration struct {
	DryRun bool `query:"dry_run" json:"-"` // Check the whole backup and say what it contains; nothing is changed.
}

// BackupType is the media type of a backup.
const BackupType = "application/octet-stream"

// The operations of backups.
var (
	CreateBackup = Op[None, File]{
		ID: "backup", Route: "GET " + PathBackup, Access: "admin", Tag: TagBackup, Conflict: true,
		Summary: "Download a backup of the embedded data.", Answer: "The backup.",
	}
	RestoreBackup = Op[Restoration, RestoreAnswer]{
		ID: "restore", Route: "POST " + PathRestore, Access: "admin", Tag: TagBackup, Takes: []string{BackupType},
		Summary: "Replace the embedded data with a backup.", Answer: "What the backup contains.",
	}
)
