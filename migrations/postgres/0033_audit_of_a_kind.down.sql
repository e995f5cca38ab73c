DROP INDEX audit_kind;
