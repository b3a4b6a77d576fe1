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
INSERT INTO matched SELECT *
  FROM (SELECT t.f, t.r, s.sid, CAST(CASE WHEN true THEN 0 END AS SMALLINT) AS act
  FROM (SELECT c0 AS c0, c1 AS f, c2 AS r
  FROM given) t
  JOIN (SELECT rowid AS sid, *
  FROM source) s ON ((t.c0 = s.c0)))
  WHERE act IS NOT NULL;
SELECT count(*) FILTER (fine), count(*) FILTER (NOT fine)
  FROM (SELECT bool_and(act IN (0)) AS fine
  FROM matched
  WHERE act IS NOT NULL
  GROUP BY f, r HAVING count(*) > 1);
SELECT act, count(*)
  FROM matched
  WHERE act IS NOT NULL
  GROUP BY act
  ORDER BY act;
SELECT f, r
  FROM matched
  WHERE act IS NOT NULL
  ORDER BY f, r;
