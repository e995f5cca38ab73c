-- When a token expired before a rotation made it expire earlier: its successors have the
-- lifetime that it had then. 0 if no rotation did.
ALTER TABLE tokens ADD COLUMN expires_before_rotation INTEGER NOT NULL DEFAULT 0;
