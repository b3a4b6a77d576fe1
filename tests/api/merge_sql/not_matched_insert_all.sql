CREATE TABLE source AS SELECT *
  FROM source_given;
SELECT k
  FROM (SELECT DISTINCT s.c0 AS k
  FROM source s)
  WHERE k IS NOT NULL LIMIT 65;
SELECT count(*)
  FROM source;
CREATE TABLE matched (f INTEGER, r BIGINT, sid BIGINT, act SMALLINT);
SELECT s.c0 AS k
  FROM source s;
INSERT INTO matched SELECT DISTINCT NULL, NULL, s.sid, NULL
  FROM (SELECT c0 AS c0, c1 AS f, c2 AS r
  FROM given) t
  JOIN (SELECT rowid AS sid, *
  FROM source) s ON ((t.c0 = s.c0));
SELECT count(*) FILTER (fine), count(*) FILTER (NOT fine)
  FROM (SELECT false AS fine
  FROM matched
  WHERE act IS NOT NULL
  GROUP BY f, r HAVING count(*) > 1);
SELECT act, count(*)
  FROM matched
  WHERE act IS NOT NULL
  GROUP BY act
  ORDER BY act;
SELECT s.c0 AS x0, s.c1 AS x1, s.c2 AS x2
  FROM (SELECT *
  FROM (SELECT s.*
  FROM (SELECT rowid AS sid, *
  FROM source) s
  ANTI JOIN matched m ON s.sid = m.sid) s
  WHERE CAST(CASE WHEN true THEN 0 END AS SMALLINT) = 0) s;
