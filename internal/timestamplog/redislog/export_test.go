package redislog

// What the tests outside this package need of its inside.
var (
	LogName        = logName
	ShardOf        = shardOf
	DecideFunction = functions.decide
	WriteStack     = writeStack
)

// MostKeys is the largest number of requests in one call.
const MostKeys = mostKeys
