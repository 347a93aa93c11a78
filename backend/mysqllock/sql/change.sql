-- Exchanges that are seldom: the ticket gets a row of its own first. They answer with a
-- code of package sqlcode, see join.sql.

-- finds a ticket that stands in a queue, which it locks; p_n is NULL if there is none. Of
-- other sessions it finds what the mask of flags says; all if that is -1.
CREATE PROCEDURE {p}find(p_queue VARBINARY(512), p_id BINARY(16), p_session BINARY(16), p_mask INT,
	OUT p_no BIGINT, OUT p_n BIGINT, OUT p_now BIGINT, OUT p_more TINYINT)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_flags INT;
	DECLARE v_holder BINARY(16);
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET @interlock_ring = NULL, @interlock_own = NULL, p_no = NULL, p_n = NULL, p_more = 0;
	SELECT no INTO p_no FROM {p}queues WHERE name = p_queue FOR UPDATE;
	SET p_now = {now};
	IF p_no IS NOT NULL THEN
		CALL {p}sweep(p_queue, p_now, v_swept);
		IF v_swept > 0 THEN
			CALL {p}grant(p_queue, p_now, 1, p_more);
			CALL {p}shown(p_no, p_now);
		END IF;
		CALL {p}unfold(p_queue);
		SELECT n, session, flags INTO p_n, v_holder, v_flags FROM {p}tickets WHERE id = p_id AND queue = p_no;
		IF p_mask <> -1 AND v_holder <> p_session AND v_flags & p_mask = 0 THEN SET p_n = NULL; END IF;
	END IF;
END;

-- says whether a session is over.
CREATE PROCEDURE {p}over(p_session BINARY(16), p_now BIGINT, OUT p_over TINYINT) SQL SECURITY INVOKER
BEGIN
	SET p_over = NOT EXISTS (SELECT 1 FROM {p}sessions WHERE id = p_session AND gone = 0 AND ends > p_now);
END;

CREATE PROCEDURE {p}shrink(p_queue VARBINARY(512), p_id BINARY(16), p_session BINARY(16), p_units BIGINT) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_n, v_now, v_units BIGINT;
	DECLARE v_more, v_over, v_first TINYINT DEFAULT 0;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	CALL {p}recover();
	START TRANSACTION;
	CALL {p}find(p_queue, p_id, p_session, 0, v_no, v_n, v_now, v_more);
	CALL {p}over(p_session, v_now, v_over);
	IF v_over OR v_n IS NULL THEN
		COMMIT;
		CALL {p}ring();
		SELECT IF(v_over, -6, -2), v_more;
		LEAVE exchange;
	END IF;
	SELECT units INTO v_units FROM {p}tickets WHERE queue = v_no AND n = v_n;
	IF p_units < v_units THEN
		UPDATE {p}tickets SET units = p_units WHERE queue = v_no AND n = v_n;
		SELECT MIN(t.n) = v_n INTO v_first FROM {p}tickets t FORCE INDEX (PRIMARY) JOIN {p}queues q ON q.name = p_queue WHERE t.queue = v_no AND t.n > q.granted;
		-- an exclusive hold has ended well
		UPDATE {p}queues SET unclean = IF(v_n <= granted AND v_units >= capacity AND v_units = used, 0, unclean),
			used = IF(v_n <= granted, used - v_units + p_units, used) WHERE name = p_queue;
		CALL {p}grant(p_queue, v_now, COALESCE(v_first, 0), v_more);
		CALL {p}shown(v_no, v_now);
	END IF;
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_more;
END;

CREATE PROCEDURE {p}keep(p_queue VARBINARY(512), p_id BINARY(16), p_session BINARY(16), p_owner VARBINARY(1024), p_for BIGINT) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_n, v_now, v_granted, v_flags, v_ends BIGINT;
	DECLARE v_more, v_over TINYINT DEFAULT 0;
	DECLARE v_code INT DEFAULT 0;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	CALL {p}recover();
	START TRANSACTION;
	CALL {p}find(p_queue, p_id, p_session, 1, v_no, v_n, v_now, v_more);
	CALL {p}over(p_session, v_now, v_over);
	IF v_n IS NULL THEN
		SET v_code = IF(v_over, -6, -2);
	ELSE
		SELECT granted INTO v_granted FROM {p}queues WHERE name = p_queue;
		SELECT flags, ends INTO v_flags, v_ends FROM {p}tickets WHERE queue = v_no AND n = v_n;
		IF v_flags & 1 = 0 AND v_over THEN
			SET v_code = -6;
		ELSEIF v_n > v_granted THEN
			SET v_code = -5;
		ELSEIF v_flags & 2 <> 0 AND v_ends < v_now + p_for THEN
			SET v_code = -2; -- nothing makes an evicted ticket last longer
		ELSE
			UPDATE {p}tickets SET flags = (flags & ~16) | 1 | IF(flags & 1, 0, 8), hold = p_for, ends = v_now + p_for,
				owner = COALESCE(owner, p_owner) WHERE queue = v_no AND n = v_n;
			CALL {p}shown(v_no, v_now);
		END IF;
	END IF;
	COMMIT;
	CALL {p}ring();
	SELECT v_code, v_more;
END;

CREATE PROCEDURE {p}ask(p_queue VARBINARY(512), p_id BINARY(16), p_what TINYINT) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_n, v_now, v_granted, v_units, v_flags, v_ends, v_sends, v_ttl, v_since BIGINT;
	DECLARE v_more, v_first TINYINT DEFAULT 0;
	DECLARE v_session BINARY(16);
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	CALL {p}recover();
	START TRANSACTION;
	CALL {p}find(p_queue, p_id, NULL, -1, v_no, v_n, v_now, v_more);
	IF v_n IS NULL THEN
		COMMIT;
		CALL {p}ring();
		SELECT -2, v_more;
		LEAVE exchange;
	END IF;
	SELECT granted INTO v_granted FROM {p}queues WHERE name = p_queue;
	SELECT units, flags, ends, session, since INTO v_units, v_flags, v_ends, v_session, v_since FROM {p}tickets WHERE queue = v_no AND n = v_n;
	IF p_what = {revoke} THEN
		UPDATE {p}tickets SET flags = flags | 4 WHERE queue = v_no AND n = v_n;
		CALL {p}tell(v_session, 3, p_id, {revoke}, v_now);
	ELSEIF p_what = {force} OR v_n > v_granted THEN
		IF v_n > v_granted THEN
			SELECT MIN(n) = v_n INTO v_first FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n > v_granted;
		END IF;
		DELETE FROM {p}tickets WHERE queue = v_no AND n = v_n;
		CALL {p}out(p_queue, v_n, v_units, 0);
		CALL {p}tell(v_session, 4, p_id, 0, v_now);
		CALL {p}grant(p_queue, v_now, v_first, v_more);
	ELSE
		-- Locked: a renewal that is under way may promise more.
		SELECT ends, ttl INTO v_sends, v_ttl FROM {p}sessions WHERE id = v_session LOCK IN SHARE MODE;
		IF v_flags & 8 THEN
			SET v_ends = LEAST(v_ends, v_now + IF(v_ttl > 0, v_ttl, {defaultttl}));
		ELSEIF v_flags & 1 = 0 THEN
			SET v_ends = COALESCE(v_ends, GREATEST(v_sends, v_since + v_ttl));
		END IF;
		UPDATE {p}tickets SET flags = (flags & ~16) | 2, ends = v_ends WHERE queue = v_no AND n = v_n;
		CALL {p}tell(v_session, 3, p_id, {evict}, v_now);
	END IF;
	CALL {p}shown(v_no, v_now);
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_more;
END;

-- makes later tokens larger than a floor, by an offset to the clock: so a server that takes
-- the place of another one, and lacks its last grants, does not give out their tokens again.
-- An offset is never lowered.
CREATE PROCEDURE {p}raise(p_queue VARBINARY(512), p_floor BIGINT) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_last, v_granted, v_offset, v_waiting, v_raised, v_now BIGINT;
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_more TINYINT DEFAULT 0;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	CALL {p}make(p_queue);
	SET @interlock_ring = NULL, @interlock_own = NULL;
	CALL {p}recover();
	START TRANSACTION;
	SELECT no INTO v_no FROM {p}queues WHERE name = p_queue FOR UPDATE;
	SET v_now = {now};
	CALL {p}sweep(p_queue, v_now, v_swept);
	IF v_swept > 0 THEN
		CALL {p}grant(p_queue, v_now, 1, v_more);
		CALL {p}shown(v_no, v_now);
	END IF;
	SELECT no, last, granted, token_offset, waiting INTO v_no, v_last, v_granted, v_offset, v_waiting FROM {p}queues WHERE name = p_queue FOR UPDATE;
	-- Those that wait have numbers already.
	SET v_raised = GREATEST(v_offset, p_floor + 1 - v_now DIV 10, IF(v_waiting > 0, p_floor - v_granted, v_offset));
	IF GREATEST(v_last, v_now DIV 10) + v_raised >= {maxtoken} - 1 THEN
		ROLLBACK;
		SELECT -4, 0;
		LEAVE exchange;
	END IF;
	IF v_raised > v_offset THEN
		-- Those that hold keep the tokens that they have. The clock may be set back before
		-- the next one comes.
		CALL {p}unfold(p_queue);
		UPDATE {p}tickets SET token = n + v_offset WHERE queue = v_no AND n <= v_granted AND token IS NULL;
		SET v_last = GREATEST(v_last, v_now DIV 10);
		UPDATE {p}queues SET token_offset = v_raised, granted = IF(tickets = 0, v_last, granted), last = v_last WHERE name = p_queue;
	END IF;
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_more;
END;

-- gives a ticket an end of its own, which renewals that follow do not move.
CREATE PROCEDURE {p}strand(p_queue VARBINARY(512), p_id BINARY(16), p_session BINARY(16)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_no, v_n, v_now, v_ends, v_ttl BIGINT;
	DECLARE v_more TINYINT DEFAULT 0;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	CALL {p}recover();
	START TRANSACTION;
	CALL {p}find(p_queue, p_id, p_session, 0, v_no, v_n, v_now, v_more);
	IF v_n IS NOT NULL THEN
		-- Locked: another renewal that is under way may promise more.
		SELECT ends, ttl INTO v_ends, v_ttl FROM {p}sessions WHERE id = p_session LOCK IN SHARE MODE;
		UPDATE {p}tickets SET ends = GREATEST(COALESCE(v_ends, 0), since + COALESCE(v_ttl, 0)), flags = flags | 16
			WHERE queue = v_no AND n = v_n AND ends IS NULL;
	END IF;
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_more;
END;

-- takes the own end from a ticket that was a stray, unless it has passed.
CREATE PROCEDURE {p}unstrand(p_queue VARBINARY(512), p_id BINARY(16), p_session BINARY(16)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_no, v_n, v_now BIGINT;
	DECLARE v_more, v_over TINYINT DEFAULT 0;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	CALL {p}recover();
	START TRANSACTION;
	CALL {p}find(p_queue, p_id, p_session, 0, v_no, v_n, v_now, v_more);
	CALL {p}over(p_session, v_now, v_over);
	IF v_n IS NOT NULL AND NOT v_over THEN
		UPDATE {p}tickets SET ends = NULL, flags = flags & ~16 WHERE queue = v_no AND n = v_n AND flags & 16 <> 0;
	END IF;
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_more;
END;

-- takes out what has ended and grants whoever is next.
CREATE PROCEDURE {p}settle(p_queue VARBINARY(512)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_no, v_now, v_before, v_after BIGINT;
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_more TINYINT DEFAULT 0;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET @interlock_ring = NULL, @interlock_own = NULL;
	CALL {p}recover();
	START TRANSACTION;
	SELECT no, granted INTO v_no, v_before FROM {p}queues WHERE name = p_queue FOR UPDATE;
	IF v_no IS NOT NULL THEN
		SET v_now = {now};
		CALL {p}sweep(p_queue, v_now, v_swept);
		CALL {p}grant(p_queue, v_now, v_swept > 0, v_more);
		SELECT granted INTO v_after FROM {p}queues WHERE name = p_queue;
		IF v_swept > 0 OR v_after <> v_before THEN CALL {p}shown(v_no, v_now); END IF;
	END IF;
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_more OR v_swept >= {most};
END;

-- gives a semaphore's queue a capacity, which it keeps; with 0 it keeps none. A queue that keeps
-- one counts a ticket more than it has: so none is the only one, its row does not go away, and a Join
-- of another capacity is a mismatch. Code -3 mismatch, -7 the same, while dead tickets may still be in it.
CREATE PROCEDURE {p}resize(p_queue VARBINARY(512), p_capacity BIGINT) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_now, v_tickets, v_last, v_granted, v_capacity, v_slow, v_longest, v_out BIGINT;
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_more, v_done TINYINT DEFAULT 0;
	DECLARE v_kind VARBINARY(64);
	DECLARE v_channel VARBINARY(64);
	DECLARE whose CURSOR FOR SELECT DISTINCT s.channel FROM {p}tickets t FORCE INDEX (PRIMARY) JOIN {p}sessions s ON s.id = t.session
		WHERE t.queue = v_no AND t.n > v_granted AND t.units > v_capacity
			AND COALESCE(IS_USED_LOCK(CONCAT(CONVERT(s.channel USING utf8mb4), ':parked')), IS_USED_LOCK(CONCAT(CONVERT(s.channel USING utf8mb4), ':anchor'))) IS NOT NULL;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = 1;
	CALL {p}make(p_queue);
	SET @interlock_ring = NULL, @interlock_own = NULL;
	CALL {p}recover();
	START TRANSACTION;
	SELECT no INTO v_no FROM {p}queues WHERE name = p_queue FOR UPDATE;
	SET v_now = {now};
	CALL {p}sweep(p_queue, v_now, v_swept);
	CALL {p}grant(p_queue, v_now, v_swept > 0, v_more);
	SELECT tickets, kind, slow INTO v_tickets, v_kind, v_slow FROM {p}queues WHERE name = p_queue;
	IF v_tickets > 0 AND v_kind <> 'semaphore' THEN
		CALL {p}shown(v_no, v_now);
		COMMIT;
		CALL {p}ring();
		SELECT IF(v_more OR v_swept >= {most}, -7, -3), 0;
		LEAVE exchange;
	END IF;
	IF p_capacity > 0 AND v_slow < {forever} THEN
		CALL {p}unfold(p_queue);
		UPDATE {p}queues SET kind = 'semaphore', capacity = p_capacity, tickets = v_tickets + 1, slow = {forever},
			id = NULL, session = NULL, note = NULL WHERE name = p_queue;
	ELSEIF p_capacity > 0 THEN
		UPDATE {p}queues SET capacity = p_capacity WHERE name = p_queue;
	ELSEIF v_slow = {forever} THEN
		SELECT longest INTO v_longest FROM {p}meta WHERE one = 1;
		SELECT last, granted INTO v_last, v_granted FROM {p}queues WHERE name = p_queue;
		UPDATE {p}queues SET tickets = v_tickets - 1, slow = v_now + v_longest, -- there may be rows in refused
			granted = IF(v_tickets = 1, v_last, v_granted) WHERE name = p_queue;
	END IF;

	-- Who waits for more than there are would keep all others out for ever.
	SELECT granted, capacity INTO v_granted, v_capacity FROM {p}queues WHERE name = p_queue;
	SET v_done = 0;
	OPEN whose;
	each_one: LOOP
		FETCH whose INTO v_channel;
		IF v_done THEN LEAVE each_one; END IF;
		INSERT INTO {p}news(channel, at, what, id) SELECT v_channel, v_now, 4, t.id FROM {p}tickets t FORCE INDEX (PRIMARY) JOIN {p}sessions s ON s.id = t.session
			WHERE t.queue = v_no AND t.n > v_granted AND t.units > v_capacity AND s.channel = v_channel;
		CALL {p}mark(v_channel);
	END LOOP;
	CLOSE whose;
	DELETE FROM {p}tickets WHERE queue = v_no AND n > v_granted AND units > v_capacity;
	SET v_out = ROW_COUNT();
	UPDATE {p}queues SET tickets = tickets - v_out, waiting = waiting - v_out WHERE name = p_queue;
	CALL {p}grant(p_queue, v_now, 1, v_more);
	CALL {p}shown(v_no, v_now);
	COMMIT;
	CALL {p}ring();
	SELECT 0, v_more OR v_swept >= {most};
END;
