-- The newest records about things of one kind: by audit_object alone, a page about blocks sorts all of them.
CREATE INDEX audit_kind ON audit (object, id);
