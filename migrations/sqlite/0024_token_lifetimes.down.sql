ALTER TABLE tokens DROP COLUMN expires_before_rotation;
