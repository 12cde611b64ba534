-- Operator families that PostgreSQL 15 knows by the OIDs of btree's: what it does for these and not for ours, and that
-- the results are the same.  (blink_btree_only has the places that ask for the access method; README.md lists all.)
CREATE TABLE opclass_btree (id int, b bool, i inet);
INSERT INTO opclass_btree SELECT n, n % 500 = 0, ('10.' || n % 40 || '.' || n % 7 || '.1/' || 24 + n % 9)::inet FROM generate_series(1, 2000) n;
CREATE TABLE opclass_blink (LIKE opclass_btree);
INSERT INTO opclass_blink SELECT * FROM opclass_btree;
CREATE INDEX opclass_btree_b ON opclass_btree USING btree (b);
CREATE INDEX opclass_btree_i ON opclass_btree USING btree (i);
CREATE INDEX opclass_blink_b ON opclass_blink USING mtpower_blink (b);
CREATE INDEX opclass_blink_i ON opclass_blink USING mtpower_blink (i);
VACUUM ANALYZE opclass_btree, opclass_blink;
SET enable_bitmapscan = off;

-- A boolean column as a condition, and what the planner makes such a condition of.
EXPLAIN (COSTS OFF) SELECT id FROM opclass_btree WHERE b;
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b;
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b = true;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_btree WHERE b;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_blink WHERE b;
-- Written with another operator, it is used; so is a partial index, which is smaller.
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b >= true;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_blink WHERE b >= true;
CREATE INDEX opclass_blink_id ON opclass_blink USING mtpower_blink (id) WHERE b;
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_blink WHERE b;

-- Subnets.
EXPLAIN (COSTS OFF) SELECT count(*) FROM opclass_btree WHERE i << '10.3/16';
EXPLAIN (COSTS OFF) SELECT count(*) FROM opclass_blink WHERE i << '10.3/16';
SELECT count(*) FROM opclass_btree WHERE i << '10.3/16';
SELECT count(*) FROM opclass_blink WHERE i << '10.3/16';
-- With the range that the planner makes for btree.
EXPLAIN (COSTS OFF) SELECT count(*) FROM opclass_blink WHERE i << '10.3/16' AND i > '10.3/16' AND i <= '10.3.255.255';
SELECT count(*) FROM opclass_blink WHERE i << '10.3/16' AND i > '10.3/16' AND i <= '10.3.255.255';
DROP TABLE opclass_btree, opclass_blink;

-- Operators that only a family of ours has, for the order of falling numbers.  Up to PostgreSQL 17 they mean nothing to the planner
-- but conditions on an index.
CREATE FUNCTION opclass_rev_lt(int, int) RETURNS bool LANGUAGE plpgsql STRICT IMMUTABLE AS 'BEGIN RETURN $1 > $2; END';
CREATE FUNCTION opclass_rev_le(int, int) RETURNS bool LANGUAGE plpgsql STRICT IMMUTABLE AS 'BEGIN RETURN $1 >= $2; END';
CREATE FUNCTION opclass_rev_eq(int, int) RETURNS bool LANGUAGE plpgsql STRICT IMMUTABLE AS 'BEGIN RETURN $1 = $2; END';
CREATE FUNCTION opclass_rev_ge(int, int) RETURNS bool LANGUAGE plpgsql STRICT IMMUTABLE AS 'BEGIN RETURN $1 <= $2; END';
CREATE FUNCTION opclass_rev_gt(int, int) RETURNS bool LANGUAGE plpgsql STRICT IMMUTABLE AS 'BEGIN RETURN $1 < $2; END';
CREATE FUNCTION opclass_rev_cmp(int, int) RETURNS int LANGUAGE plpgsql STRICT IMMUTABLE AS 'BEGIN RETURN btint4cmp($2, $1); END';
CREATE OPERATOR <# (FUNCTION = opclass_rev_lt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = >#, RESTRICT = scalarltsel);
CREATE OPERATOR <=# (FUNCTION = opclass_rev_le, LEFTARG = int, RIGHTARG = int, COMMUTATOR = >=#, RESTRICT = scalarlesel);
CREATE OPERATOR =# (FUNCTION = opclass_rev_eq, LEFTARG = int, RIGHTARG = int, COMMUTATOR = =#, RESTRICT = eqsel, JOIN = eqjoinsel, MERGES);
CREATE OPERATOR >=# (FUNCTION = opclass_rev_ge, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <=#, RESTRICT = scalargesel);
CREATE OPERATOR ># (FUNCTION = opclass_rev_gt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <#, RESTRICT = scalargtsel);
CREATE OPERATOR CLASS opclass_rev FOR TYPE int USING mtpower_blink AS
	OPERATOR 1 <#, OPERATOR 2 <=#, OPERATOR 3 =#, OPERATOR 4 >=#, OPERATOR 5 >#, FUNCTION 1 opclass_rev_cmp(int, int);
CREATE TABLE opclass_own (a int, b int);
INSERT INTO opclass_own SELECT g, g % 100 FROM generate_series(1, 3000) g;
CREATE INDEX opclass_own_a ON opclass_own USING mtpower_blink (a opclass_rev);
VACUUM ANALYZE opclass_own;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT a FROM opclass_own WHERE a <# 2998;
SELECT a FROM opclass_own WHERE a <# 2998;
EXPLAIN (COSTS OFF) SELECT a FROM opclass_own ORDER BY a USING <# LIMIT 3;
SELECT a FROM opclass_own ORDER BY a USING <# LIMIT 3;
SELECT a FROM opclass_own ORDER BY a USING ># LIMIT 3;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM opclass_own x JOIN opclass_own y ON x.a =# y.a WHERE x.a ># 50 AND y.a ># 50;
SELECT count(*) FROM opclass_own x JOIN opclass_own y ON x.a =# y.a WHERE x.a ># 50 AND y.a ># 50;
RESET enable_nestloop;
CREATE INDEX opclass_own_b ON opclass_own USING mtpower_blink (b) WHERE a <# 2000;
EXPLAIN (COSTS OFF) SELECT a FROM opclass_own WHERE b = 7 AND a <# 2400;
SELECT string_agg(a::text, ' ' ORDER BY a) FROM opclass_own WHERE b = 7 AND a <# 2400;
DROP TABLE opclass_own;
RESET enable_seqscan;
SET client_min_messages = warning;
DROP OPERATOR FAMILY opclass_rev USING mtpower_blink;
DROP FUNCTION opclass_rev_lt, opclass_rev_le, opclass_rev_eq, opclass_rev_ge, opclass_rev_gt, opclass_rev_cmp CASCADE;
RESET client_min_messages;
