-- Last: a client that finds this comment, with this number or a higher one,
-- finds everything.
COMMENT ON FUNCTION @token_1(bytea, int8) IS 'version @version';
