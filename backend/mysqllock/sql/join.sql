-- Code 0 held, 1 waits, 2 stands already; below 0 no ticket stands, with a code of package
-- sqlcode: -1 busy, -2 gone, -3 mismatch, -4 the tokens are used up, -6 the session is over;
-- -5, not held, is none of Join's.
CREATE PROCEDURE {p}join(
	p_queue VARBINARY(512), p_id BINARY(16), p_kind VARBINARY(64), p_units BIGINT, p_capacity BIGINT,
	p_nowait TINYINT, p_hold BIGINT, p_retry TINYINT, p_session BINARY(16), p_owner VARBINARY(1024), p_note MEDIUMBLOB)
SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_capacity, v_last, v_granted, v_offset, v_used, v_tickets, v_waiting, v_unclean, v_now, v_slow, v_n, v_ends, v_gone, v_frozen BIGINT;
	DECLARE v_swept, v_again BIGINT DEFAULT 0;
	DECLARE v_watched, v_fits, v_more TINYINT DEFAULT 0;
	DECLARE v_kind VARBINARY(64);
	DECLARE v_id BINARY(16);
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET @interlock_ring = NULL, @interlock_own = NULL;
	IF {forgets} THEN CALL {p}recover(); END IF;

	SELECT waiting INTO v_waiting FROM {p}queues WHERE name = p_queue;
	START TRANSACTION;
	IF v_waiting > 0 THEN
		SELECT n INTO v_n FROM {p}gates WHERE n = CRC32(p_queue) % {gates} FOR UPDATE;
	END IF;
	SELECT no, kind, capacity, last, granted, token_offset, used, tickets, waiting, unclean, watched, slow, {lone}
		INTO v_no, v_kind, v_capacity, v_last, v_granted, v_offset, v_used, v_tickets, v_waiting, v_unclean, v_watched, v_slow, v_id
		FROM {p}queues WHERE name = p_queue FOR UPDATE;
	IF v_no IS NULL THEN
		ROLLBACK; -- of the gap that it has locked
		CALL {p}make(p_queue);
		START TRANSACTION;
		SELECT no, kind, capacity, last, granted, token_offset, used, tickets, waiting, unclean, watched, slow, {lone}
			INTO v_no, v_kind, v_capacity, v_last, v_granted, v_offset, v_used, v_tickets, v_waiting, v_unclean, v_watched, v_slow, v_id
			FROM {p}queues WHERE name = p_queue FOR UPDATE;
	END IF;
	SET v_now = {now};
	IF v_slow > v_now AND EXISTS (SELECT 1 FROM {p}refused WHERE id = p_id AND until > v_now) THEN
		ROLLBACK;
		SELECT -2, 0, 0, 0, 0;
		LEAVE exchange;
	END IF;
	SELECT ends, gone INTO v_ends, v_gone FROM {p}sessions WHERE id = p_session LOCK IN SHARE MODE;
	IF v_ends IS NULL OR v_gone OR v_ends <= v_now THEN
		ROLLBACK;
		SELECT -6, 0, 0, 0, 0;
		LEAVE exchange;
	END IF;
	IF p_retry AND (v_id = p_id OR EXISTS (SELECT 1 FROM {p}tickets WHERE id = p_id)) THEN
		ROLLBACK;
		SELECT IF(v_id = p_id OR EXISTS (SELECT 1 FROM {p}tickets WHERE id = p_id AND queue = v_no), 2, -3), 0, 0, 0, 0;
		LEAVE exchange;
	END IF;

	IF v_tickets > 0 AND (v_id IS NOT NULL OR v_kind <> p_kind OR v_capacity <> p_capacity OR v_waiting > 0 OR p_units > v_capacity - v_used) THEN
		CALL {p}sweep(p_queue, v_now, v_swept);
		IF v_swept > 0 THEN
			CALL {p}grant(p_queue, v_now, 1, v_more);
			CALL {p}shown(v_no, v_now);
			SELECT last, granted, token_offset, used, tickets, waiting, unclean, watched, {lone}
				INTO v_last, v_granted, v_offset, v_used, v_tickets, v_waiting, v_unclean, v_watched, v_id
				FROM {p}queues WHERE name = p_queue;
		END IF;
		IF v_tickets > 0 THEN
			IF v_kind <> p_kind OR v_capacity <> p_capacity THEN
				COMMIT;
				CALL {p}ring();
				SELECT -3, 0, 0, 0, v_more;
				LEAVE exchange;
			END IF;
		END IF;
	END IF;
	CALL {p}frozen(v_now, v_frozen);
	SET v_fits = v_frozen <= v_now AND (v_tickets = 0 OR v_waiting = 0 AND p_units <= v_capacity - v_used);
	IF p_nowait AND NOT v_fits THEN
		COMMIT;
		CALL {p}ring();
		SELECT -1, 0, 0, 0, v_more;
		LEAVE exchange;
	END IF;
	SET v_n = {next};
	IF v_n + v_offset >= {maxtoken} THEN
		ROLLBACK;
		SELECT -4, 0, 0, 0, 0;
		LEAVE exchange;
	END IF;
	IF v_fits AND v_tickets = 0 AND p_hold = 0 THEN
		UPDATE {p}queues SET kind = p_kind, capacity = p_capacity, last = v_n, granted = v_n, used = p_units, tickets = 1,
			id = p_id, session = p_session, since = v_now, note = p_note WHERE name = p_queue;
	ELSE
		IF v_id IS NOT NULL THEN CALL {p}unfold(p_queue); END IF;
		INSERT INTO {p}tickets(queue, n, id, units, session, since, hold, ends, flags, owner, note)
			VALUES (v_no, v_n, p_id, p_units, p_session, v_now, p_hold, IF(v_fits AND p_hold > 0, v_now + p_hold, NULL),
				v_fits AND p_hold > 0, IF(p_hold > 0, p_owner, NULL), p_note);
		IF v_fits THEN
			UPDATE {p}queues SET kind = p_kind, capacity = p_capacity, last = v_n, granted = v_n,
				used = IF(v_tickets = 0, 0, used) + p_units, tickets = v_tickets + 1, since = v_now, id = NULL, session = NULL, note = NULL
				WHERE name = p_queue;
		ELSE
			UPDATE {p}queues SET kind = p_kind, capacity = p_capacity, last = v_n, tickets = tickets + 1, waiting = waiting + 1,
				id = NULL, session = NULL, note = NULL WHERE name = p_queue;
			IF v_waiting = 0 THEN
				CALL {p}again(v_no, v_granted, v_now, v_again);
				SET v_again = GREATEST(COALESCE(v_again, 1), v_frozen - v_now);
				CALL {p}want(v_no, v_granted, v_now);
			END IF;
		END IF;
	END IF;
	IF v_watched THEN CALL {p}shown(v_no, v_now); END IF;
	COMMIT;
	IF @interlock_ring IS NOT NULL THEN CALL {p}ring(); END IF;
	SELECT NOT v_fits, v_n + v_offset, v_unclean, v_again, v_more;
END;

-- is join to the end of a line, in which those in front look after who holds: a few statements. Else it is left to
-- join. The session ends at p_ends or later; 0: it is looked up. -1: it is left to that.
CREATE PROCEDURE {p}line(p_queue VARBINARY(512), p_id BINARY(16), p_kind VARBINARY(64), p_units BIGINT, p_capacity BIGINT,
	p_session BINARY(16), p_note MEDIUMBLOB, p_ends BIGINT)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_n BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	START TRANSACTION;
	SELECT n INTO v_n FROM {p}gates WHERE n = CRC32(p_queue) % {gates} FOR UPDATE;
	UPDATE {p}queues SET last = GREATEST(last + 1, LEAST({now} DIV 10, {counted} - token_offset)), tickets = tickets + 1, waiting = waiting + 1
		WHERE name = p_queue AND waiting > 0 AND kind = p_kind AND capacity = p_capacity AND watched = 0 AND slow <= {now}
			AND last + token_offset < {maxtoken} - 2;
	SET v_n = ROW_COUNT();
	IF p_ends = 0 THEN SELECT MAX(ends) INTO p_ends FROM {p}sessions WHERE id = p_session AND gone = 0 LOCK IN SHARE MODE; END IF;
	IF v_n = 1 AND p_ends > {now} THEN
		INSERT INTO {p}tickets(queue, n, id, units, session, since, hold, flags, note)
			SELECT no, last, p_id, p_units, p_session, {now}, 0, 0, p_note FROM {p}queues WHERE name = p_queue;
		COMMIT;
		SELECT 1, 0, 0, 0, 0;
	ELSE
		ROLLBACK;
		CALL {p}join(p_queue, p_id, p_kind, p_units, p_capacity, 0, 0, 0, p_session, '', p_note);
	END IF;
END;

-- makes the row of a queue, whose numbers begin above those that it may have had. One that nobody has used for an hour
-- counts as used now: else tidy might remove it before the caller locks it. It is
-- a transaction of its own: one that has read something before it has the queue's lock
-- would go on seeing the tickets that stood then.
CREATE PROCEDURE {p}make(p_name VARBINARY(512)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_floor BIGINT;
	SELECT floor INTO v_floor FROM {p}meta WHERE one = 1;
	INSERT INTO {p}queues(name, kind, capacity, last, granted, since) VALUES (p_name, '', 0, v_floor, v_floor, {now})
		ON DUPLICATE KEY UPDATE since = IF(tickets = 0, VALUES(since), since);
	COMMIT;
END;

-- tells holders that somebody waits. Those beyond the first hundred learn it by their renewals.
CREATE PROCEDURE {p}want(p_no BIGINT, p_granted BIGINT, p_now BIGINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_id, v_session BINARY(16);
	DECLARE v_done INT DEFAULT 0;
	DECLARE holders CURSOR FOR SELECT id, session FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = p_no AND n <= p_granted ORDER BY n LIMIT {most};
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = 1;
	OPEN holders;
	each_one: LOOP
		FETCH holders INTO v_id, v_session;
		IF v_done THEN LEAVE each_one; END IF;
		CALL {p}tell(v_session, 3, v_id, {wanted}, p_now);
	END LOOP;
	CLOSE holders;
END;
