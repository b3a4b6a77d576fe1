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
  FROM (SELECT c0 AS c0, c1 AS c1, c2 AS f, c3 AS r
  FROM given) t
  JOIN (SELECT rowid AS sid, *
  FROM source) s ON ((t.c0 = s.c0)) AND ((t.c1 < (s.c1 - CAST(CAST('0' AS INTEGER) AS BIGINT)))) AND ((s.c2 = 'b')) AND ((t.c1 > CAST(CAST('5' AS INTEGER) AS BIGINT))))
  WHERE act IS NOT NULL;
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
SELECT f, r
  FROM matched
  WHERE act IS NOT NULL
  ORDER BY f, r;
SELECT m.act AS x0, m.f AS x1, m.r AS x2, t.c0 AS x3, t.c2 AS x4, CASE WHEN m.act = 0 THEN s.c1 END AS x5
  FROM (SELECT c0 AS c0, c1 AS c2, c2 AS f, c3 AS r
  FROM picked) t
  JOIN matched m ON t.f = m.f AND t.r = m.r
  LEFT JOIN (SELECT rowid AS sid, *
  FROM source) s ON s.sid = m.sid
  WHERE m.act IN (0);
