-- Parts of exchanges. The queue's row is locked by whoever calls them.

-- has a client woken after the commit.
CREATE PROCEDURE {p}mark(p_channel VARBINARY(64)) SQL SECURITY INVOKER
BEGIN
	SET @interlock_ring = CONCAT_WS(',', @interlock_ring, p_channel);
END;

-- wakes the clients that were marked: those that listen have one connection parked,
-- which has a lock of the channel's name.
CREATE PROCEDURE {p}ring() SQL SECURITY INVOKER
BEGIN
	DECLARE v_channel VARCHAR(64);
	DECLARE v_thread BIGINT;
	DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; -- it has ended, or is another user's
	WHILE @interlock_ring <> '' DO
		SET v_channel = SUBSTRING_INDEX(@interlock_ring, ',', 1);
		SET @interlock_ring = SUBSTRING(@interlock_ring, LENGTH(v_channel) + 2);
		SET v_thread = IS_USED_LOCK(CONCAT(v_channel, ':parked'));
		IF v_thread IS NOT NULL THEN
			KILL QUERY v_thread;
		END IF;
	END WHILE;
	SET @interlock_ring = NULL;
END;

-- tells a session something that it also learns by its next renewal, if its client listens.
CREATE PROCEDURE {p}tell(p_session BINARY(16), p_what TINYINT, p_id BINARY(16), p_token BIGINT, p_now BIGINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_channel VARBINARY(64);
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SELECT channel INTO v_channel FROM {p}sessions WHERE id = p_session;
	IF v_channel IS NOT NULL AND COALESCE(IS_USED_LOCK(CONCAT(CONVERT(v_channel USING utf8mb4), ':parked')),
		IS_USED_LOCK(CONCAT(CONVERT(v_channel USING utf8mb4), ':anchor'))) IS NOT NULL THEN
		INSERT INTO {p}news(channel, at, what, id, token) VALUES (v_channel, p_now, p_what, p_id, p_token);
		CALL {p}mark(v_channel);
	END IF;
END;

-- tells those who follow a queue or watch a cell.
CREATE PROCEDURE {p}changed(p_what TINYINT, p_name VARBINARY(528), p_now BIGINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_channel VARBINARY(64);
	DECLARE v_done INT DEFAULT 0;
	DECLARE everybody CURSOR FOR SELECT channel FROM {p}watches WHERE what = p_what AND name = p_name ORDER BY channel;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = 1;
	OPEN everybody;
	each_one: LOOP
		FETCH everybody INTO v_channel;
		IF v_done THEN LEAVE each_one; END IF;
		DELETE FROM {p}watches WHERE what = p_what AND name = p_name AND channel = v_channel;
		INSERT INTO {p}news(channel, at, what, name) VALUES (v_channel, p_now, p_what, p_name);
		CALL {p}mark(v_channel);
	END LOOP;
	CLOSE everybody;
END;

-- tells those who follow a queue, if there may be any.
CREATE PROCEDURE {p}shown(p_no BIGINT, p_now BIGINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_name VARBINARY(512);
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SELECT name INTO v_name FROM {p}queues WHERE no = p_no AND watched = 1;
	IF v_name IS NOT NULL THEN
		UPDATE {p}queues SET watched = 0 WHERE name = v_name;
		CALL {p}changed(5, v_name, p_now);
	END IF;
END;

-- gives the only ticket a row of its own. It comes after a sweep: the session of a ticket
-- with a row of its own is there.
CREATE PROCEDURE {p}unfold(p_name VARBINARY(512)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_no, v_granted, v_used, v_since BIGINT;
	DECLARE v_id, v_session BINARY(16);
	DECLARE v_note MEDIUMBLOB;
	SELECT no, granted, used, since, {lone}, session, note INTO v_no, v_granted, v_used, v_since, v_id, v_session, v_note
		FROM {p}queues WHERE name = p_name;
	IF v_id IS NOT NULL THEN
		INSERT INTO {p}tickets(queue, n, id, units, session, since, hold, flags, note)
			VALUES (v_no, v_granted, v_id, v_used, v_session, v_since, 0, 0, v_note);
		UPDATE {p}queues SET id = NULL, session = NULL, note = NULL WHERE name = p_name;
	END IF;
END;

-- counts a ticket out whose row is gone.
CREATE PROCEDURE {p}out(p_name VARBINARY(512), p_n BIGINT, p_units BIGINT, p_clean TINYINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_capacity, v_last, v_granted, v_used, v_tickets, v_waiting, v_unclean BIGINT;
	SELECT capacity, last, granted, used, tickets - 1, waiting, unclean
		INTO v_capacity, v_last, v_granted, v_used, v_tickets, v_waiting, v_unclean FROM {p}queues WHERE name = p_name;
	IF p_n <= v_granted THEN
		SET v_used = v_used - p_units;
		IF p_units >= v_capacity AND v_used = 0 THEN SET v_unclean = NOT p_clean; END IF; -- no other is held beside it
	ELSE
		SET v_waiting = v_waiting - 1;
	END IF;
	IF v_tickets = 0 THEN
		SET v_granted = v_last;
	END IF;
	UPDATE {p}queues SET granted = v_granted, used = v_used, tickets = v_tickets,
		waiting = v_waiting, unclean = v_unclean, id = NULL, session = NULL, note = NULL WHERE name = p_name;
END;

-- counts the tickets of a queue anew, of which somebody has deleted rows: what is not there holds nothing.
CREATE PROCEDURE {p}mend(p_name VARBINARY(512)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_tickets, v_used, v_waiting BIGINT;
	SELECT COUNT(t.n), COALESCE(SUM(IF(t.n <= q.granted, t.units, 0)), 0), COALESCE(SUM(t.n > q.granted), 0) INTO v_tickets, v_used, v_waiting
		FROM {p}queues q LEFT JOIN {p}tickets t ON t.queue = q.no WHERE q.name = p_name;
	UPDATE {p}queues SET tickets = v_tickets + (slow = {forever}), used = v_used, waiting = v_waiting, unclean = 1,
		granted = IF(v_tickets = 0, last, granted) WHERE name = p_name;
END;

-- takes out tickets that have ended, {most} at most. Whoever is next is granted by the caller.
CREATE PROCEDURE {p}sweep(p_name VARBINARY(512), p_now BIGINT, INOUT p_swept BIGINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_no, v_n, v_units, v_flags, v_own, v_ends, v_ttl, v_since, v_used, v_granted, v_waiting BIGINT;
	DECLARE v_id, v_session BINARY(16);
	DECLARE v_done INT DEFAULT 0;
	DECLARE ended CURSOR FOR
		(SELECT n, id, units, flags, session, 1 FROM {p}tickets FORCE INDEX (own_end) WHERE queue = v_no AND ends <= p_now ORDER BY n LIMIT {most})
		UNION ALL
		(SELECT STRAIGHT_JOIN t.n, t.id, t.units, t.flags, t.session, 0 FROM {p}sessions s FORCE INDEX (ends) JOIN {p}tickets t FORCE INDEX (session) ON t.session = s.id AND t.queue = v_no
			WHERE s.ends <= p_now AND (t.ends IS NULL AND t.since + s.ttl <= p_now OR s.ends = 0 AND t.flags & 1 = 0 AND t.ends > p_now) ORDER BY t.session, t.n LIMIT {most});
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = 1;

	SELECT no, {lone}, session, since, used, granted INTO v_no, v_id, v_session, v_since, v_used, v_granted FROM {p}queues WHERE name = p_name;
	IF v_id IS NOT NULL THEN
		-- Locked: the end of the session removes it if it sees no row of a ticket, and a
		-- renewal that is under way may move that end.
		SELECT ends, ttl INTO v_ends, v_ttl FROM {p}sessions WHERE id = v_session LOCK IN SHARE MODE;
		IF v_ends IS NULL OR v_ends <= p_now AND v_since + v_ttl <= p_now THEN
			UPDATE {p}sessions SET gone = 1 WHERE id = v_session AND gone = 0;
			CALL {p}out(p_name, v_granted, v_used, 0);
			SET p_swept = p_swept + 1;
		END IF;
	ELSE
		SET v_done = 0;
		OPEN ended;
		each_one: LOOP
			FETCH ended INTO v_n, v_id, v_units, v_flags, v_session, v_own;
			IF v_done THEN LEAVE each_one; END IF;
			SET v_ends = NULL;
			IF v_own = 0 THEN
				SELECT ends INTO v_ends FROM {p}sessions WHERE id = v_session FOR UPDATE; -- was it renewed meanwhile?
				IF v_ends > p_now THEN ITERATE each_one; END IF;
				UPDATE {p}sessions SET gone = 1 WHERE id = v_session AND gone = 0;
			END IF;
			SET v_done = 0;
			DELETE FROM {p}tickets WHERE queue = v_no AND n = v_n;
			IF ROW_COUNT() = 1 THEN -- else it was counted out already
				CALL {p}out(p_name, v_n, v_units, v_flags & 8 <> 0);
				CALL {p}tell(v_session, 4, v_id, 0, p_now);
				SET p_swept = p_swept + 1;
			END IF;
		END LOOP;
		CLOSE ended;
		SELECT used, granted, waiting INTO v_used, v_granted, v_waiting FROM {p}queues WHERE name = p_name;
		IF v_used > 0 AND NOT EXISTS (SELECT 1 FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n <= v_granted)
				OR v_waiting > 0 AND NOT EXISTS (SELECT 1 FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n > v_granted) THEN
			CALL {p}mend(p_name);
			SET p_swept = p_swept + 1;
		END IF;
	END IF;
END;

-- when the first of those that hold ends, unless it is renewed: in so many microseconds, at least 1.
CREATE PROCEDURE {p}again(p_no BIGINT, p_granted BIGINT, p_now BIGINT, OUT p_again BIGINT) SQL SECURITY INVOKER
BEGIN
	SELECT GREATEST(1, MIN(COALESCE(t.ends, GREATEST(s.ends, t.since + s.ttl), 0)) - p_now) INTO p_again
		FROM {p}tickets t FORCE INDEX (PRIMARY) LEFT JOIN {p}sessions s ON s.id = t.session WHERE t.queue = p_no AND t.n <= p_granted;
END;

-- A server that does not write its log with each commit may have forgotten grants and
-- releases when it comes back from a crash. So the first connection after that ends all
-- sessions, and takes back their news; nothing is granted until whoever held has been told
-- or has run out of time.
CREATE PROCEDURE {p}recover() SQL SECURITY INVOKER
BEGIN
	DECLARE v_longest BIGINT;
	IF {forgets} THEN
		IF NOT EXISTS (SELECT 1 FROM {p}boot WHERE one = 1) THEN
			START TRANSACTION;
			UPDATE {p}sessions SET gone = 1, ends = 0, ttl = 0;
			DELETE FROM {p}news;
			SELECT longest INTO v_longest FROM {p}meta WHERE one = 1;
			COMMIT;
			INSERT IGNORE INTO {p}boot VALUES (1, {now} + v_longest);
		END IF;
	END IF;
END;

-- until when nothing is granted.
CREATE PROCEDURE {p}frozen(p_now BIGINT, OUT p_until BIGINT) SQL SECURITY INVOKER
BEGIN
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET p_until = 0;
	IF {forgets} THEN
		SELECT until INTO p_until FROM {p}boot WHERE one = 1;
	END IF;
END;

-- lets in whoever fits, in order, {most} at most, and has them told. If the first in
-- line is another one without a grant, p_head is 1.
CREATE PROCEDURE {p}grant(p_name VARBINARY(512), p_now BIGINT, p_head TINYINT, OUT p_more TINYINT) SQL SECURITY INVOKER
BEGIN
	DECLARE v_no, v_capacity, v_granted, v_offset, v_used, v_waiting, v_unclean, v_n, v_units, v_hold, v_again, v_since, v_ends, v_session_ends, v_ttl, v_frozen BIGINT;
	DECLARE v_swept BIGINT DEFAULT 0;
	DECLARE v_id, v_session BINARY(16);
	DECLARE v_channel VARBINARY(64);
	DECLARE v_in INT DEFAULT 0;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	SET p_more = 0;
	CALL {p}frozen(p_now, v_frozen);
	SELECT no, capacity, granted, token_offset, used, waiting, unclean INTO v_no, v_capacity, v_granted, v_offset, v_used, v_waiting, v_unclean
		FROM {p}queues WHERE name = p_name;
	let_in: WHILE v_waiting > 0 AND v_frozen <= p_now DO
		SET v_id = NULL;
		SELECT n, id, units, hold, session, since, ends INTO v_n, v_id, v_units, v_hold, v_session, v_since, v_ends
			FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n > v_granted ORDER BY n LIMIT 1;
		IF v_id IS NULL THEN
			UPDATE {p}queues SET granted = v_granted, used = v_used WHERE name = p_name;
			CALL {p}mend(p_name);
			SET v_in = 0, v_waiting = 0;
			LEAVE let_in;
		END IF;
		IF v_units > v_capacity - v_used THEN LEAVE let_in; END IF;
		IF v_in = {most} THEN
			SET p_more = 1;
			LEAVE let_in;
		END IF;
		SET v_channel = NULL, v_session_ends = 0, v_ttl = 0;
		SELECT channel, ends, ttl INTO v_channel, v_session_ends, v_ttl FROM {p}sessions WHERE id = v_session;
		IF (v_session_ends = 0 OR COALESCE(v_ends, GREATEST(v_session_ends, v_since + v_ttl)) <= p_now) AND NOT v_swept THEN
			-- nothing is granted to the dead
			UPDATE {p}queues SET granted = v_granted, used = v_used, waiting = v_waiting WHERE name = p_name;
			CALL {p}sweep(p_name, p_now, v_swept);
			SELECT granted, token_offset, used, waiting, unclean INTO v_granted, v_offset, v_used, v_waiting, v_unclean
				FROM {p}queues WHERE name = p_name;
			IF v_swept >= {most} THEN
				SET p_more = 1;
				LEAVE let_in;
			END IF;
			SET p_head = 1;
			IF v_swept THEN ITERATE let_in; END IF;
		END IF;
		SET v_in = v_in + 1, v_granted = v_n, v_used = v_used + v_units, v_waiting = v_waiting - 1;
		IF v_hold > 0 THEN
			UPDATE {p}tickets SET ends = p_now + v_hold, flags = (flags & ~16) | 1 WHERE queue = v_no AND n = v_n;
			SET p_head = 1;
		END IF;
		IF v_channel = @interlock_own THEN
			SET @interlock_told = CONCAT_WS(',', @interlock_told, CONCAT_WS(':', HEX(v_id), v_n + v_offset, v_unclean | IF(v_waiting > 0, 2, 0)));
		ELSEIF v_channel IS NOT NULL THEN
			INSERT INTO {p}news(channel, at, what, id, token, flags)
				VALUES (v_channel, p_now, 1, v_id, v_n + v_offset, v_unclean | IF(v_waiting > 0, 2, 0));
			CALL {p}mark(v_channel);
		END IF;
	END WHILE;
	IF v_in > 0 THEN
		UPDATE {p}queues SET granted = v_granted, used = v_used, waiting = v_waiting WHERE name = p_name;
	END IF;
	IF p_head AND v_waiting > 0 AND NOT p_more THEN
		SELECT id, session INTO v_id, v_session FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = v_no AND n > v_granted ORDER BY n LIMIT 1;
		CALL {p}again(v_no, v_granted, p_now, v_again);
		CALL {p}tell(v_session, 2, v_id, GREATEST(COALESCE(v_again, 1), v_frozen - p_now), p_now);
	END IF;
END;

-- takes a lock of a channel, which one connection has. Another one that has it is of the same process, and was lost:
-- the server may not know of that yet.
CREATE PROCEDURE {p}seize(p_lock VARCHAR(64)) SQL SECURITY INVOKER
BEGIN
	DECLARE v_got INT DEFAULT GET_LOCK(p_lock, 0);
	DECLARE v_thread BIGINT;
	IF v_got IS NULL OR v_got <> 1 THEN
		SET v_thread = IS_USED_LOCK(p_lock);
		BEGIN
			DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; -- it has ended
			IF v_thread IS NOT NULL THEN KILL v_thread; END IF;
		END;
		SET v_got = GET_LOCK(p_lock, 2);
	END IF;
	IF v_got IS NULL OR v_got <> 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'another connection listens here'; END IF;
END;

-- brings the news of a channel, and then waits until KILL QUERY ends it, or for so many seconds. A server can forget
-- that it was to end a procedure, where a statement inside has just ended well. But what stands in conditions and
-- assignments is no such statement: so news whose ring was forgotten are seen by the last condition, and from there on
-- no ring is forgotten. What it waits for is the anchor, a lock that one connection to the server has. Where nobody has
-- it, this one does from then on, and says so: a row with what 0. Its client is to park another one, which finds the
-- news of the time between: meanwhile another lock, with the name of the channel, says that the client listens.
CREATE PROCEDURE {p}park(p_channel VARBINARY(64), p_for DECIMAL(9, 3)) SQL SECURITY INVOKER
exchange: BEGIN
	DECLARE v_name VARCHAR(64) DEFAULT CONVERT(p_channel USING utf8mb4);
	DECLARE v_got INT;
	DECLARE v_many BIGINT;
	DECLARE v_which DECIMAL(65); -- others have another number or another sum
	IF COALESCE(IS_USED_LOCK(CONCAT(v_name, ':parked')), 0) <> CONNECTION_ID() THEN
		SET v_got = GET_LOCK('interlock_anchor', 0);
		IF v_got = 1 THEN
			SET v_got = GET_LOCK(CONCAT(v_name, ':anchor'), 0);
			SET SESSION wait_timeout = 86400;
			SELECT 0, 0, NULL, NULL, 0, 0;
			LEAVE exchange;
		END IF;
		CALL {p}seize(CONCAT(v_name, ':parked'));
		SET SESSION autocommit = 1 /*M!100100 , @@SESSION.max_statement_time = 0 */ /*!80000 , @@SESSION.max_execution_time = 0 */;
	END IF;
	IF {forgets} THEN CALL {p}recover(); END IF;
	SELECT COUNT(*), COALESCE(SUM(k + 1099511627776), 0) INTO v_many, v_which FROM {p}news WHERE channel = p_channel;
	SELECT k, what, id, name, token, flags FROM {p}news WHERE channel = p_channel ORDER BY k LIMIT {perhear};
	IF v_many <= {perhear} AND v_which = (SELECT COALESCE(SUM(k + 1099511627776), 0) FROM {p}news WHERE channel = p_channel) THEN
		SET v_got = GET_LOCK('interlock_anchor', /*M!100000 p_for */ /*!80000 CEIL(p_for) */);
		IF v_got = 1 THEN
			SET v_got = GET_LOCK(CONCAT(v_name, ':anchor'), 0);
			DO RELEASE_LOCK(CONCAT(v_name, ':parked'));
			SET SESSION wait_timeout = 86400;
			SELECT 0, 0, NULL, NULL, 0, 0;
		END IF;
	END IF;
END;
