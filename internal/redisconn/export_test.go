package redisconn

// FirstUnfit passes replies in pieces of the given size, and returns the beginning of the first
// refused piece, or the length of all replies.
func FirstUnfit(replies string, size int) int {
	var s replySizes
	for at := 0; at < len(replies); at += size {
		if !s.fit([]byte(replies[at:min(at+size, len(replies))])) {
			return at
		}
	}
	return len(replies)
}
