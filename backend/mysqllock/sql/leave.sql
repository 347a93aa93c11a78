-- Code 0 done, -2 gone, -6 the session is over. Grants for the caller's own mailbox are part of the answer.
CREATE PROCEDURE {p}leave(p_queue VARBINARY(512), p_id BINARY(16), p_session BINARY(16), p_clean TINYINT, p_refuse BIGINT, p_mailbox VARBINARY(64))
SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_capacity, v_last, v_granted, v_waiting, v_unclean, v_used, v_now, v_n, v_units, v_ends, v_gone, v_flags, v_own BIGINT;
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_watched, v_more, v_first TINYINT DEFAULT 0;
	DECLARE v_id, v_holder BINARY(16);
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET @interlock_ring = NULL, @interlock_own = p_mailbox, @interlock_told = NULL;
	IF {forgets} THEN CALL {p}recover(); END IF;

	START TRANSACTION;
	SELECT no, capacity, last, granted, used, waiting, unclean, watched, {lone}, session
		INTO v_no, v_capacity, v_last, v_granted, v_used, v_waiting, v_unclean, v_watched, v_id, v_holder
		FROM {p}queues WHERE name = p_queue FOR UPDATE;
	IF v_no IS NULL AND p_refuse > 0 THEN -- a Join that is under way must wait for what is written here
		ROLLBACK;
		CALL {p}make(p_queue);
		START TRANSACTION;
		SELECT no, capacity, last, granted, used, waiting, unclean, watched, {lone}, session
			INTO v_no, v_capacity, v_last, v_granted, v_used, v_waiting, v_unclean, v_watched, v_id, v_holder
			FROM {p}queues WHERE name = p_queue FOR UPDATE;
	END IF;
	SET v_now = {now};
	SELECT ends, gone INTO v_ends, v_gone FROM {p}sessions WHERE id = p_session;
	SET v_gone = v_ends IS NULL OR v_gone OR v_ends <= v_now;
	IF p_refuse > 0 AND NOT v_gone THEN -- also if the ticket stands: a Join that was sent twice may come twice
		INSERT INTO {p}refused(id, until) VALUES (p_id, v_now + p_refuse) ON DUPLICATE KEY UPDATE until = GREATEST(until, VALUES(until));
		UPDATE {p}queues SET slow = GREATEST(slow, v_now + p_refuse) WHERE name = p_queue;
	END IF;

	IF v_id = p_id AND v_holder = p_session THEN
		IF NOT v_gone THEN
			IF v_used = v_capacity THEN SET v_unclean = NOT p_clean; END IF;
			UPDATE {p}queues SET granted = v_last, used = 0, tickets = 0, unclean = v_unclean,
				id = NULL, session = NULL, note = NULL WHERE name = p_queue;
			IF v_watched THEN CALL {p}shown(v_no, v_now); END IF;
			COMMIT;
			IF @interlock_ring IS NOT NULL THEN CALL {p}ring(); END IF;
			SELECT 0, 0, NULL;
			LEAVE exchange;
		END IF;
	ELSE
		SELECT n, units, session, ends, flags INTO v_n, v_units, v_holder, v_own, v_flags FROM {p}tickets WHERE id = p_id AND queue = v_no;
	END IF;
	IF v_n IS NULL OR v_holder <> p_session AND v_flags & 1 = 0 OR v_gone AND v_flags & 1 = 0 OR v_own <= v_now THEN
		IF v_no IS NOT NULL THEN
			CALL {p}sweep(p_queue, v_now, v_swept);
			IF v_swept > 0 THEN
				CALL {p}grant(p_queue, v_now, 1, v_more);
				CALL {p}shown(v_no, v_now);
			END IF;
		END IF;
		COMMIT;
		CALL {p}ring();
		SELECT IF(v_gone, -6, -2), v_more, @interlock_told;
		LEAVE exchange;
	END IF;

	IF v_n > v_granted THEN
		SELECT MIN(n) = v_n INTO v_first FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n > v_granted;
	END IF;
	DELETE FROM {p}tickets WHERE queue = v_no AND n = v_n;
	CALL {p}out(p_queue, v_n, v_units, p_clean);
	IF v_holder <> p_session THEN CALL {p}tell(v_holder, 4, p_id, 0, v_now); END IF;
	IF v_waiting > 0 THEN CALL {p}grant(p_queue, v_now, v_first, v_more); END IF;
	IF v_watched THEN CALL {p}shown(v_no, v_now); END IF;
	COMMIT;
	IF @interlock_ring IS NOT NULL THEN CALL {p}ring(); END IF;
	SELECT 0, v_more, @interlock_told;
END;

-- is leave for the only holder, if the first in line can have all that it had and is alive: a few statements. Else it
-- is left to leave. The session ends at p_ends or later; 0: it is looked up. -1: it is left to that.
CREATE PROCEDURE {p}pass(p_queue VARBINARY(512), p_id BINARY(16), p_session BINARY(16), p_clean TINYINT, p_mailbox VARBINARY(64), p_ends BIGINT)
SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_capacity, v_granted, v_offset, v_more, v_heir BIGINT;
	DECLARE v_id BINARY(16);
	DECLARE v_channel VARBINARY(64);
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	START TRANSACTION;
	SELECT no, capacity, granted, token_offset, IF(waiting > 1, 2, 0) INTO v_no, v_capacity, v_granted, v_offset, v_more FROM {p}queues
		WHERE name = p_queue AND waiting > 0 AND used = capacity AND watched = 0 AND {lone} IS NULL FOR UPDATE;
	IF p_ends = 0 THEN SELECT MAX(ends) INTO p_ends FROM {p}sessions WHERE id = p_session AND gone = 0; END IF;
	SELECT t.n, t.id, s.channel INTO v_heir, v_id, v_channel FROM {p}tickets t FORCE INDEX (PRIMARY) JOIN {p}sessions s ON s.id = t.session
		WHERE t.queue = v_no AND t.n = (SELECT MIN(n) FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n > v_granted)
			AND t.units = v_capacity AND t.hold = 0 AND t.ends IS NULL AND s.gone = 0 AND s.ends > {now} AND p_ends > {now};
	IF v_heir IS NOT NULL THEN
		DELETE FROM {p}tickets WHERE id = p_id AND queue = v_no AND session = p_session AND n <= v_granted AND units = v_capacity AND ends IS NULL;
		IF ROW_COUNT() = 1 THEN
			UPDATE {p}queues SET granted = v_heir, tickets = tickets - 1, waiting = waiting - 1, unclean = NOT p_clean WHERE name = p_queue;
			IF v_channel = p_mailbox THEN
				COMMIT;
				SELECT 0, 0, CONCAT_WS(':', HEX(v_id), v_heir + v_offset, (NOT p_clean) | v_more);
			ELSE
				INSERT INTO {p}news(channel, at, what, id, token, flags) VALUES (v_channel, {now}, 1, v_id, v_heir + v_offset, (NOT p_clean) | v_more);
				COMMIT;
				SET @interlock_ring = v_channel;
				CALL {p}ring();
				SELECT 0, 0, NULL;
			END IF;
			LEAVE exchange;
		END IF;
	END IF;
	ROLLBACK;
	CALL {p}leave(p_queue, p_id, p_session, p_clean, 0, p_mailbox);
END;

-- takes out tickets that wait, or waited a moment ago: of the session, with the IDs that
-- stand one after the other. It answers with 0 for each that does not stand, 1 for others.
-- Code 0 done, -6 the session is over.
CREATE PROCEDURE {p}withdraw(p_queue VARBINARY(512), p_ids BLOB, p_session BINARY(16), p_clean TINYINT)
SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_granted, v_now, v_n, v_units, v_head, v_at BIGINT;
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_more, v_over, v_first TINYINT DEFAULT 0;
	DECLARE v_stood VARBINARY(1000) DEFAULT '';
	DECLARE v_id BINARY(16);
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET @interlock_ring = NULL, @interlock_own = NULL;
	IF {forgets} THEN CALL {p}recover(); END IF;

	START TRANSACTION;
	SELECT n INTO v_n FROM {p}gates WHERE n = CRC32(p_queue) % {gates} + {gates} FOR UPDATE;
	SELECT no, granted INTO v_no, v_granted FROM {p}queues WHERE name = p_queue FOR UPDATE;
	SET v_now = {now};
	CALL {p}over(p_session, v_now, v_over);
	IF v_over THEN
		ROLLBACK;
		SELECT -6, '', 0;
		LEAVE exchange;
	END IF;
	SELECT MIN(n) INTO v_head FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n > v_granted;
	SET v_at = 1;
	WHILE v_at < LENGTH(p_ids) DO
		SET v_id = SUBSTRING(p_ids, v_at, 16), v_at = v_at + 16, v_n = NULL;
		SELECT n, units INTO v_n, v_units FROM {p}tickets WHERE id = v_id AND queue = v_no AND session = p_session AND (ends IS NULL OR ends > v_now);
		IF v_n IS NULL THEN
			SET v_stood = CONCAT(v_stood, '0');
		ELSE
			DELETE FROM {p}tickets WHERE queue = v_no AND n = v_n;
			CALL {p}out(p_queue, v_n, v_units, p_clean);
			SET v_stood = CONCAT(v_stood, '1'), v_first = v_first OR v_n <= v_head;
		END IF;
	END WHILE;
	IF v_no IS NOT NULL THEN
		CALL {p}sweep(p_queue, v_now, v_swept);
		CALL {p}grant(p_queue, v_now, v_swept > 0 OR v_first, v_more);
		CALL {p}shown(v_no, v_now);
	END IF;
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_stood, v_more;
END;
