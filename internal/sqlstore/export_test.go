package sqlstore

// MigrationLock is the lock that nodes migrate under, for tests that hold it.
const MigrationLock = migrationLock
