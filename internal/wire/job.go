package wire

// PathJobs is the path of what is declared here.
const PathJobs = "/v1/jobs"

// TagJobs is the group of these operations in the OpenAPI document.
var TagJobs = Tag{"jobs", "The periodic jobs."}

// Job is one periodic job.
type Job struct {
	Name     string `json:"name"`
	Help     string `json:"help"`     // what it does, in one sentence
	Schedule string `json:"schedule"` // cron, in UTC; off: not scheduled
	NextAt   Time   `json:"next_at"`  // null: not scheduled
	// Last is its newest run, null if there is none.
	Last *JobRun `json:"last"`
}

// JobRun is one run of a job.
type JobRun struct {
	ID        int64  `json:"id"`
	Job       string `json:"job"`
	Node      string `json:"node"`   // the node that ran it
	DueAt     Time   `json:"due_at"` // when it was to start
	StartedAt Time   `json:"started_at"`
	// FinishedAt is null while it runs, and stays null if its node died or stopped.
	FinishedAt Time       `json:"finished_at"`
	Result     string     `json:"result"` // what it did, for people
	Error      NullString `json:"error"`  // null unless it failed
	// TriggeredBy is what started it.
	TriggeredBy string `json:"triggered_by" enum:"operator,schedule"`
}

// IsUnfinished reports whether the run has not ended.
func (r JobRun) IsUnfinished() bool { return r.FinishedAt.IsZero() }

// RunList selects runs of jobs.
type RunList struct {
	Job string `query:"job" json:"-"` // Only runs of this job.
	PageList
}

// The operations of jobs.
var (
	ListJobs = Op[None, Page[Job]]{
		ID: "listJobs", Route: "GET " + PathJobs, Access: "read", Tag: TagJobs,
		Summary: "List the jobs with their newest runs.", Answer: "The jobs.",
	}
	ListRuns = Op[RunList, Page[JobRun]]{
		ID: "listRuns", Route: "GET " + PathJobs + "/runs", Access: "read", Tag: TagJobs,
		Summary: "List the runs, the newest first.", Answer: "The runs.",
	}
	RunJob = Op[ByName, JobRun]{
		ID: "runJob", Route: "POST " + PathJobs + "/:name/run", Access: "operate", Tag: TagJobs,
		Summary: "Run a job now; the answer comes when it has ended, or after 20 s. The job back-up needs the access admin.",
		Answer:  "The run, which has ended.", Accepted: "The run, which goes on; the list of the runs shows its end.",
	}
)
