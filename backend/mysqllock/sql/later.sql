-- What earlier releases have not made: it is made when it is needed, by a user who has made the rest.

-- gives a semaphore's queue a capacity, which it keeps; with 0 it keeps none. A queue that keeps
-- one counts a ticket more than it has: so none is the only one, its row does not go away, and a Join
-- of another capacity is a mismatch, also one by an earlier release. Code -3 mismatch, -7 the same,
-- while dead tickets may still be in it.
CREATE PROCEDURE {p}resize(p_queue VARBINARY(512), p_capacity BIGINT) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_no, v_now, v_tickets, v_last, v_granted, v_capacity, v_slow, v_longest, v_out BIGINT;
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_more, v_done TINYINT DEFAULT 0;
	DECLARE v_kind VARBINARY(64);
	DECLARE v_channel VARBINARY(64);
	DECLARE whose CURSOR FOR SELECT DISTINCT s.channel FROM {p}tickets t FORCE INDEX (PRIMARY) JOIN {p}sessions s ON s.id = t.session
		WHERE t.queue = v_no AND t.n > v_granted AND t.units > v_capacity AND IS_USED_LOCK(CONCAT(CONVERT(s.channel USING utf8mb4), ':parked')) IS NOT NULL;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = 1;
	CALL {p}make(p_queue);
	SET @interlock_ring = NULL;
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
	-- Procedures of an earlier release do not take a holder for an exclusive one any more that has more than all, and would tell
	-- nobody that it died.
	IF p_capacity > 0 THEN
		UPDATE {p}queues SET unclean = 1 WHERE name = p_queue AND capacity > p_capacity AND used >= capacity
			AND (id IS NOT NULL OR EXISTS (SELECT 1 FROM {p}tickets t WHERE t.queue = v_no AND t.n <= granted AND t.units = used));
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
