-- Last: who finds this comment, with this number or a higher one, finds all.
COMMENT ON FUNCTION @token_1(bytea, int8) IS 'version @version';
