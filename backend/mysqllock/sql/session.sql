-- makes a session, once, and returns its end.
CREATE PROCEDURE {p}begin(p_session BINARY(16), p_ttl BIGINT, p_owner VARBINARY(1024), p_channel VARBINARY(64)) SQL SECURITY INVOKER
BEGIN
	INSERT INTO {p}sessions(id, ends, ttl, owner, channel) VALUES (p_session, {now} + p_ttl, p_ttl, p_owner, p_channel)
		ON DUPLICATE KEY UPDATE id = p_session;
	UPDATE {p}meta SET longest = p_ttl WHERE one = 1 AND longest < p_ttl;
	COMMIT;
	SELECT ends FROM {p}sessions WHERE id = p_session;
END;

-- extends a session, if it is to, and reads one ticket; if that waits, also the front of its
-- line, with numbers that are known: see lookAhead.
CREATE PROCEDURE {p}one(p_session BINARY(16), p_renew TINYINT, p_queue VARBINARY(512), p_id BINARY(16)) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_granted BIGINT;
	DECLARE v_waits, v_free TINYINT DEFAULT 0;
	DECLARE v_done TINYINT DEFAULT 1;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	IF p_renew THEN
		DO LAST_INSERT_ID(0); -- so that it tells whether a row is found
		{extend};
		SET v_done = LAST_INSERT_ID() > 0;
	END IF;
	SELECT v_done, LAST_INSERT_ID();
	IF NOT v_done THEN LEAVE exchange; END IF;
	SELECT q.no, q.granted, q.used < q.capacity, t.n > q.granted INTO v_no, v_granted, v_free, v_waits
		FROM {p}queues q LEFT JOIN {p}tickets t ON t.id = p_id AND t.queue = q.no WHERE q.name = p_queue;
	{asked};
	IF v_waits AND v_free THEN
		{front} UNION ALL {head};
	ELSEIF v_waits THEN
		{front};
	END IF;
END;

-- ends a session, and returns the queues that are to be settled. An end of 0 says that
-- tickets with an end of their own end, too, unless it is a fixed one.
CREATE PROCEDURE {p}end(p_session BINARY(16)) SQL SECURITY INVOKER
BEGIN
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	START TRANSACTION;
	UPDATE {p}sessions SET gone = 1, ends = 0, ttl = 0 WHERE id = p_session;
	IF NOT EXISTS (SELECT 1 FROM {p}tickets WHERE session = p_session) THEN
		DELETE FROM {p}sessions WHERE id = p_session;
	END IF;
	COMMIT;
	-- A queue whose only ticket ends has nobody who waits, but perhaps some who follow it.
	SELECT q.name FROM {p}tickets t JOIN {p}queues q ON q.no = t.queue WHERE t.session = p_session AND t.flags & 1 = 0
		UNION SELECT q.name FROM {p}watches w JOIN {p}queues q ON q.name = w.name WHERE w.what = 5 AND q.tickets > 0 AND q.session = p_session;
END;

-- has a client told of the next change.
CREATE PROCEDURE {p}watch(p_what TINYINT, p_name VARBINARY(528), p_channel VARBINARY(64)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_watched TINYINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	IF p_what = 5 THEN CALL {p}make(p_name); END IF;
	START TRANSACTION;
	IF p_what = 5 THEN
		UPDATE {p}queues SET watched = 1 WHERE name = p_name;
	ELSE
		INSERT INTO {p}cells(name, version, present, watched) VALUES (p_name, 0, 0, 1) ON DUPLICATE KEY UPDATE watched = 1;
	END IF;
	INSERT INTO {p}watches(what, name, channel) VALUES (p_what, p_name, p_channel) ON DUPLICATE KEY UPDATE channel = p_channel;
	COMMIT;
END;

-- Code 0 done, 1 conflict.
CREATE PROCEDURE {p}swap(p_id BINARY(16), p_name VARBINARY(528), p_version BIGINT, p_present TINYINT, p_value MEDIUMBLOB) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_version, v_done, v_now BIGINT;
	DECLARE v_watched TINYINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET @interlock_ring = NULL, @interlock_own = NULL;
	START TRANSACTION;
	INSERT INTO {p}cells(name, version, present) VALUES (p_name, 0, 0) ON DUPLICATE KEY UPDATE name = p_name;
	SELECT version, watched INTO v_version, v_watched FROM {p}cells WHERE name = p_name FOR UPDATE;
	SET v_now = {now};
	SELECT version INTO v_done FROM {p}swaps WHERE id = p_id;
	IF v_done IS NOT NULL THEN
		ROLLBACK;
		SELECT v_done = 0, v_done;
		LEAVE exchange;
	END IF;
	IF v_version = p_version THEN
		SET v_version = GREATEST(v_version + 1, v_now DIV 10);
		UPDATE {p}cells SET version = v_version, present = p_present, watched = 0, value = p_value WHERE name = p_name;
		IF v_watched THEN CALL {p}changed(6, p_name, v_now); END IF;
	ELSE
		SET v_version = 0;
	END IF;
	INSERT INTO {p}swaps(id, at, version) VALUES (p_id, v_now, v_version);
	COMMIT;
	IF @interlock_ring IS NOT NULL THEN CALL {p}ring(); END IF;
	SELECT v_version = 0, v_version;
END;

-- removes rows that nobody needs any more, and returns queues that are to be settled:
-- of those with numbers above p_after, so many at most.
CREATE PROCEDURE {p}tidy(p_after BIGINT, p_many BIGINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_id BINARY(16);
	DECLARE v_name VARBINARY(512);
	DECLARE v_now, v_last, v_ends BIGINT;
	DECLARE v_done INT DEFAULT 0;
	DECLARE silent CURSOR FOR SELECT id FROM {p}sessions WHERE ends + ttl < v_now AND ends < v_now ORDER BY ends LIMIT {most};
	DECLARE idle CURSOR FOR SELECT name FROM {p}queues WHERE no > p_after AND no <= p_after + p_many AND tickets = 0 AND token_offset = 0 AND watched = 0 AND slow < v_now
		AND since < v_now - IF(unclean, 30 * 24, 1) * 3600000000 LIMIT {most};
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = 1;
	SET v_now = {now};

	OPEN silent;
	each_one: LOOP
		FETCH silent INTO v_id;
		IF v_done THEN LEAVE each_one; END IF;
		START TRANSACTION;
		SELECT ends INTO v_ends FROM {p}sessions WHERE id = v_id AND ends + ttl < v_now FOR UPDATE;
		IF NOT v_done AND NOT EXISTS (SELECT 1 FROM {p}tickets WHERE session = v_id) THEN
			DELETE FROM {p}sessions WHERE id = v_id;
		END IF;
		COMMIT;
		SET v_done = 0;
	END LOOP;
	CLOSE silent;

	SET v_done = 0;
	OPEN idle;
	each_one: LOOP
		FETCH idle INTO v_name;
		IF v_done THEN LEAVE each_one; END IF;
		START TRANSACTION;
		SELECT last INTO v_last FROM {p}queues WHERE name = v_name AND tickets = 0 AND token_offset = 0 AND watched = 0 AND slow < v_now
			AND since < v_now - IF(unclean, 30 * 24, 1) * 3600000000 FOR UPDATE; -- it may have been used meanwhile
		IF NOT v_done THEN
			UPDATE {p}meta SET floor = v_last WHERE one = 1 AND floor < v_last;
			DELETE FROM {p}queues WHERE name = v_name;
		END IF;
		COMMIT;
		SET v_done = 0;
	END LOOP;
	CLOSE idle;

	DELETE FROM {p}refused WHERE until < v_now ORDER BY until LIMIT 1000;
	COMMIT;
	DELETE FROM {p}swaps WHERE at < v_now - {swapmemory} ORDER BY at LIMIT 1000;
	COMMIT;
	DELETE FROM {p}news WHERE at < v_now - 600000000 ORDER BY k LIMIT 1000;
	COMMIT;

	SELECT q.name FROM {p}tickets t JOIN {p}queues q ON q.no = t.queue WHERE t.ends <= v_now
		UNION SELECT STRAIGHT_JOIN q.name FROM {p}sessions s JOIN {p}tickets t ON t.session = s.id JOIN {p}queues q ON q.no = t.queue
			WHERE s.ends <= v_now AND (t.ends IS NULL AND t.since + s.ttl <= v_now OR s.ends = 0 AND t.flags & 1 = 0)
		UNION SELECT q.name FROM {p}queues q LEFT JOIN {p}sessions s ON s.id = q.session
			WHERE q.no > p_after AND q.no <= p_after + p_many AND q.tickets > 0 AND q.id IS NOT NULL AND (s.id IS NULL OR s.ends <= v_now AND q.since + s.ttl <= v_now)
		LIMIT {most};
END;
