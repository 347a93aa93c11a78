-- One function for each exchange. What they share comes first. A function that
-- changes tickets locks the row of their queue before it reads anything that it
-- relies on: in a transaction that only reads what is committed, each statement sees
-- what was committed before it began, so what comes after the lock is what counts.
--
-- Each gets the search path pg_catalog, pg_temp. NOW_US stands for the time, NEXT(q) for the next number of a queue,
-- PLANS for the settings that make plans not depend on how large the tables were when a connection first used them,
-- DURABLE for what a transaction does whose effects must outlast a crash, and COMMITTED for the same if the tables of
-- locks are logged: even that a ticket was left must not be forgotten, since it would come back as one that its session
-- does not know and yet keeps.
--
-- What is found by its id is compared in all else in a way that no index serves: IS
-- TRUE, or a difference; and rows are joined by their ids LATERAL with a LIMIT of 1.
-- While the server takes a table for a small one, all ways are equal to it, and it would
-- read all sessions, or a whole line.
--
-- Codes: 1 held, 2 waits, -1 busy, -2 gone, -3 other kind or capacity, -4 tokens used
-- up, -5 not held, -6 session over.

-- Writes something, so that the commit waits for all that was committed before: for the
-- disk, and for a synchronous standby.
CREATE FUNCTION @confirm() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DURABLE
	PERFORM pg_logical_emit_message(true, 'interlock', '');
END $$;

-- What a server's history is called, which changes when a standby is promoted or a backup
-- is restored up to a point in time, and in no restart. NULL: the server does not say.
CREATE FUNCTION @timeline() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
EXCEPTION WHEN others THEN
	RETURN NULL;
END $$;

-- The same as a number; 0: the server does not say.
CREATE FUNCTION @history() RETURNS bigint LANGUAGE sql AS $$
	SELECT coalesce(('x' || lpad(@timeline(), 16, '0'))::bit(64)::bigint, 0)
$$;

INSERT INTO @meta VALUES (true, 3, UNLOGGED?, 0, 0, 0, @timeline());

-- The grace after a crash, and where numbers of new rows begin. Queues that have
-- tickets of a fixed end get their rows at once: their holders need not line up again.
-- After a promotion the last changes of meta may be missing: a longer TTL, and that there
-- was a crash, or another promotion, before. So the grace is that of the default TTL at
-- least, and numbers begin far above the bound, by the clock.
CREATE FUNCTION @revive() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	m @meta;
	now bigint;
	v_timeline text := @timeline();
	first boolean;
	same boolean;
	v_floor bigint;
	v_queue text;
BEGIN
	SELECT * INTO STRICT m FROM @meta r WHERE r.one FOR UPDATE;
	PERFORM FROM @sentinel r WHERE r.one;
	IF FOUND THEN -- somebody else was faster
		RETURN;
	END IF;
	DURABLE
	now := NOW_US;
	same := (m.timeline = v_timeline) IS TRUE;
	first := m.incarnation = 0 AND m.timeline IS NOT DISTINCT FROM v_timeline;
	v_floor := CASE WHEN first OR NOT m.unlogged THEN 0 WHEN same THEN m.high ELSE greatest(m.high + 120000000, now / 10 + 600000000) END;
	m.longest := greatest(m.longest, CASE WHEN same THEN 0 ELSE 15000000 END);
	UPDATE @meta SET incarnation = m.incarnation + 1, high = greatest(m.high, now / 10, v_floor) + 60000000, timeline = v_timeline WHERE one;
	INSERT INTO @sentinel(incarnation, safe, floor)
		VALUES (m.incarnation + 1, CASE WHEN first THEN 0 ELSE now + m.longest + m.longest / 100 END, v_floor);
	FOR v_queue IN SELECT DISTINCT r.queue FROM @fixed r WHERE r.ends > now ORDER BY r.queue LOOP
		PERFORM @make(v_queue);
	END LOOP;
END $$;

-- Makes the row of a queue, with the tickets of a fixed end that it had before a
-- crash.
CREATE FUNCTION @make(p_queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	x @sentinel;
	o @floor;
	f @fixed;
	base bigint;
	k bigint := 0;
	now bigint := NOW_US;
BEGIN
	SELECT * INTO x FROM @sentinel r WHERE r.one;
	IF NOT FOUND THEN
		PERFORM @revive();
		SELECT * INTO STRICT x FROM @sentinel r WHERE r.one;
	END IF;
	SELECT * INTO o FROM @floor r WHERE r.queue = p_queue;
	base := greatest(x.floor, o.floor);
	INSERT INTO @queue(name, kind, capacity, last, granted, "offset", most, used, tickets, waiting, unclean, watched, frozen, slow)
		VALUES (p_queue, CASE WHEN o.capacity > 0 THEN 'semaphore' ELSE '' END, coalesce(o.capacity, 0), base, base, coalesce(o.offset, 0), 0, 0, 0, 0,
			x.incarnation > 1, false, x.safe, CASE WHEN o.capacity > 0 THEN FOREVER ELSE x.safe END)
		ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	FOR f IN SELECT * FROM @fixed r WHERE r.queue = p_queue AND r.ends > now ORDER BY r.token LOOP
		k := k + 1;
		INSERT INTO @ticket(queue, n, id, units, session, since, note, hold, ends, flags, owner, token)
			VALUES (p_queue, base + k, f.id, f.units, f.session, f.since, f.note, f.hold, f.ends, f.flags, f.owner, f.token)
			ON CONFLICT DO NOTHING;
		UPDATE @queue q SET kind = f.kind, capacity = CASE WHEN o.capacity > 0 THEN o.capacity ELSE f.capacity END, last = greatest(base + k, f.token - q.offset), granted = greatest(base + k, f.token - q.offset),
			used = q.used + f.units, tickets = q.tickets + 1 WHERE q.name = p_queue;
	END LOOP;
END $$;

-- Has a number written down before it is given out, so that those after a crash are
-- larger. Numbers near the clock are provided for by one row; those that are far
-- ahead, since the clock was set back, each queue by itself.
CREATE FUNCTION @provide(q @queue, number bigint, now bigint) RETURNS @queue LANGUAGE plpgsql AS $$
BEGIN
	SELECT m.high INTO q.most FROM @meta m WHERE m.one;
	IF number >= q.most AND number < now / 10 + 30000000 THEN
		DURABLE
		UPDATE @meta m SET high = greatest(m.high, now / 10 + 60000000) WHERE m.one RETURNING m.high INTO q.most;
	ELSIF number >= q.most THEN
		DURABLE
		INSERT INTO @floor AS f (queue, floor, "offset") VALUES (q.name, number + 1000000, q.offset)
			ON CONFLICT (queue) DO UPDATE SET floor = greatest(f.floor, excluded.floor) RETURNING f.floor INTO q.most;
	END IF;
	RETURN q;
END $$;

-- Locks the row of a queue, which is made if there is none.
CREATE FUNCTION @lock(p_queue text) RETURNS @queue LANGUAGE plpgsql AS $$
DECLARE
	q @queue;
BEGIN
	LOOP
		SELECT * INTO q FROM @queue r WHERE r.name = p_queue FOR UPDATE;
		IF FOUND THEN
			RETURN q;
		END IF;
		PERFORM @make(p_queue);
	END LOOP;
END $$;

-- Writes the row of a queue, and tells those who follow it.
CREATE FUNCTION @save(q @queue) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	c text;
BEGIN
	IF q.watched THEN
		FOR c IN DELETE FROM @watch w WHERE w.what = 'queue' AND w.name = q.name RETURNING w.channel LOOP
			PERFORM pg_notify(c, 'q ' || q.name);
		END LOOP;
	END IF;
	UPDATE @queue r SET kind = q.kind, capacity = q.capacity, last = q.last, granted = q.granted, "offset" = q.offset,
		most = q.most, used = q.used, tickets = q.tickets, waiting = q.waiting, unclean = q.unclean, watched = false, frozen = q.frozen,
		slow = q.slow, id = q.id, units = q.units, session = q.session, since = q.since, note = q.note
		WHERE r.name = q.name;
END $$;

-- The ticket that is kept in the row of its queue.
CREATE FUNCTION @lone(q @queue) RETURNS @ticket LANGUAGE plpgsql AS $$
DECLARE
	t @ticket;
BEGIN
	IF q.id IS NOT NULL THEN
		t.queue := q.name; t.n := q.granted; t.id := q.id; t.units := q.units; t.session := q.session;
		t.since := q.since; t.note := q.note; t.hold := 0; t.flags := 0;
	END IF;
	RETURN t;
END $$;

-- Gives that ticket a row of its own.
CREATE FUNCTION @unfold(q @queue) RETURNS @queue LANGUAGE plpgsql AS $$
BEGIN
	IF q.id IS NOT NULL THEN
		INSERT INTO @ticket(queue, n, id, units, session, since, note, hold, flags)
			VALUES (q.name, q.granted, q.id, q.units, q.session, q.since, q.note, 0, 0);
		q.id := NULL; q.units := NULL; q.session := NULL; q.note := NULL;
	END IF;
	RETURN q;
END $$;

-- When a ticket ends unless it is renewed.
CREATE FUNCTION @ends(t @ticket) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	s @session;
BEGIN
	IF t.flags & 1 <> 0 THEN
		RETURN t.ends;
	END IF;
	SELECT * INTO s FROM @session r WHERE r.id = t.session;
	IF NOT FOUND OR s.expires = 0 THEN
		RETURN 0;
	END IF;
	RETURN coalesce(t.ends, greatest(s.expires, t.since + s.ttl));
END $$;

-- Whether a ticket has ended. If that is so because its session has, this is made
-- certain: the session is not renewed any more. It does not wait for the session's
-- row: whoever has locked it is just renewing it, most likely.
CREATE FUNCTION @ended(t @ticket, now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	s @session;
BEGIN
	IF t.ends IS NOT NULL AND t.ends <= now THEN
		RETURN true;
	ELSIF t.flags & 1 <> 0 THEN
		RETURN false;
	END IF;
	SELECT * INTO s FROM @session r WHERE r.id = t.session;
	IF NOT FOUND OR s.expires = 0 THEN
		RETURN true;
	ELSIF t.ends IS NOT NULL OR greatest(s.expires, t.since + s.ttl) > now THEN
		RETURN false;
	ELSIF s.over THEN
		RETURN true;
	END IF;
	PERFORM FROM @session r WHERE r.id = t.session AND r.expires - now <= 0 FOR UPDATE SKIP LOCKED;
	IF FOUND THEN
		UPDATE @session r SET over = true WHERE r.id = t.session;
		RETURN true;
	END IF;
	RETURN EXISTS (SELECT FROM @session r WHERE r.id = t.session AND r.over);
END $$;

-- Sends to the client of a session.
CREATE FUNCTION @tell(p_session uuid, message text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	c text;
BEGIN
	SELECT r.channel INTO c FROM @session r WHERE r.id = p_session;
	IF c <> '' THEN
		PERFORM pg_notify(c, message);
	END IF;
END $$;

-- Takes a ticket out.
CREATE FUNCTION @remove(q @queue, t @ticket, clean boolean) RETURNS @queue LANGUAGE plpgsql AS $$
BEGIN
	IF q.id = t.id THEN
		q.id := NULL; q.units := NULL; q.session := NULL; q.note := NULL;
	ELSE
		DELETE FROM @ticket r WHERE r.queue = q.name AND r.n = t.n;
		IF t.flags & 1 <> 0 THEN
			DURABLE
			DELETE FROM @fixed r WHERE r.id = t.id;
		END IF;
	END IF;
	q.tickets := q.tickets - 1;
	IF t.n > q.granted THEN
		q.waiting := q.waiting - 1;
	ELSE
		IF t.units >= q.capacity AND t.units = q.used THEN -- no other is held beside it
			q.unclean := NOT clean;
		END IF;
		q.used := q.used - t.units;
	END IF;
	IF q.tickets = 0 THEN
		q.granted := q.last;
	END IF;
	RETURN q;
END $$;

-- Gives a held ticket, which has a row, a fixed end.
CREATE FUNCTION @fix(q @queue, t @ticket, p_hold bigint, p_owner text, p_flags integer, now bigint) RETURNS @ticket LANGUAGE plpgsql AS $$
BEGIN
	DURABLE
	t.hold := p_hold; t.ends := now + p_hold; t.flags := (t.flags & ~16) | 1 | p_flags; t.owner := coalesce(t.owner, p_owner);
	UPDATE @ticket r SET hold = t.hold, ends = t.ends, flags = t.flags, owner = t.owner WHERE r.queue = t.queue AND r.n = t.n;
	INSERT INTO @fixed(id, queue, kind, capacity, units, session, since, note, hold, ends, flags, owner, token)
		VALUES (t.id, q.name, q.kind, q.capacity, t.units, t.session, t.since, t.note, t.hold, t.ends, t.flags, coalesce(t.owner, ''), coalesce(t.token, t.n + q.offset))
		ON CONFLICT (id) DO UPDATE SET units = excluded.units, hold = excluded.hold, ends = excluded.ends, flags = excluded.flags;
	RETURN t;
END $$;

-- Until when nothing is granted in a queue that was frozen when it was made: the grace may have
-- become shorter, or be over. See thaw.
CREATE FUNCTION @grace(frozen bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN least(frozen, (SELECT x.safe FROM @sentinel x WHERE x.one));
END $$;

-- Forgets a grace that is over, and has one that is left last for a whole one at most: so a
-- clock that is set back brings no grace again, and adds no more than one to another.
CREATE FUNCTION @thaw() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	now bigint := NOW_US;
	whole bigint;
BEGIN
	IF (SELECT x.safe FROM @sentinel x WHERE x.one) <> 0 THEN
		-- That of a promotion may be longer than the longest TTL.
		SELECT greatest(m.longest, 15000000) INTO whole FROM @meta m WHERE m.one;
		whole := whole + whole / 100;
		UPDATE @sentinel x SET safe = CASE WHEN x.safe <= now THEN 0 ELSE now + whole END
			WHERE x.one AND (x.safe <= now OR x.safe > now + whole);
	END IF;
END $$;

-- Counts the tickets of a queue anew, of which somebody has deleted rows: what is not there holds nothing.
CREATE FUNCTION @mend(q @queue) RETURNS @queue LANGUAGE plpgsql AS $$
BEGIN
	SELECT count(*), coalesce(sum(r.units) FILTER (WHERE r.n <= q.granted), 0), count(*) FILTER (WHERE r.n > q.granted)
		INTO q.tickets, q.used, q.waiting FROM @ticket r WHERE r.queue = q.name;
	q.unclean := true;
	IF q.tickets = 0 THEN
		q.granted := q.last;
	END IF;
	RETURN q;
END $$;

-- When something that holds ends next: not later than that.
CREATE FUNCTION @due(q @queue, now bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	own bigint;
	other bigint;
BEGIN
	IF q.frozen > now AND @grace(q.frozen) > now THEN
		RETURN @grace(q.frozen);
	ELSIF q.id IS NOT NULL THEN
		RETURN @ends(@lone(q));
	END IF;
	SELECT min(t.ends) INTO own FROM @ticket t WHERE t.queue = q.name AND t.ends IS NOT NULL;
	IF q.tickets - q.waiting <= 64 THEN
		SELECT min(greatest(s.expires, t.since + s.ttl)) INTO other
			FROM @ticket t CROSS JOIN LATERAL (SELECT r.expires, r.ttl FROM @session r WHERE r.id = t.session LIMIT 1) s
			WHERE t.queue = q.name AND t.n <= q.granted AND t.ends IS NULL;
	ELSE
		SELECT s.expires INTO other FROM @session s
			WHERE EXISTS (SELECT FROM @ticket t WHERE t.session = s.id AND t.queue = q.name AND t.n <= q.granted AND t.ends IS NULL)
			ORDER BY s.expires LIMIT 1;
	END IF;
	-- Those that hold and have no rows end now: see mend.
	RETURN coalesce(least(own, other), CASE WHEN q.tickets > q.waiting THEN now ELSE now + 60000000 END);
END $$;

-- Grants whoever fits now, in order, and tells them. Those that have ended are taken
-- out instead. If many do, the rest is left to another exchange.
CREATE FUNCTION @grant(INOUT q @queue, OUT more boolean, now bigint) LANGUAGE plpgsql AS $$
DECLARE
	t @ticket;
	winners uuid[] := '{}';
	tokens bigint[] := '{}';
	sessions uuid[] := '{}';
	dead integer := 0;
	soon bigint;
	got record;
	v_more boolean := false;
BEGIN
	more := false;
	IF q.waiting = 0 OR q.used >= q.capacity OR q.frozen > now AND @grace(q.frozen) > now THEN
		RETURN;
	END IF;
	FOR t IN SELECT * FROM @ticket w WHERE w.queue = q.name AND w.n > q.granted ORDER BY w.n LOOP
		IF @ended(t, now) THEN
			q := @remove(q, t, true);
			dead := dead + 1;
		ELSIF t.units > q.capacity THEN -- resize has been left in the middle
			PERFORM @tell(t.session, 'x ' || t.id);
			q := @remove(q, t, false);
			dead := dead + 1;
		ELSIF t.units > q.capacity - q.used THEN
			-- The first in line looks again by itself: with its next heartbeat, unless that
			-- may be too late.
			soon := @due(q, now) - now;
			PERFORM pg_notify(s.channel, 'f ' || t.id || ' ' || soon) FROM @session s WHERE s.id = t.session AND s.channel <> '' AND soon < s.ttl / 2;
			EXIT;
		ELSIF cardinality(winners) >= 200 OR dead >= 200 THEN
			more := true;
			v_more := true;
			EXIT;
		ELSE
			q.granted := t.n;
			q.used := q.used + t.units;
			q.waiting := q.waiting - 1;
			IF t.hold > 0 THEN
				t := @fix(q, t, t.hold, NULL, 0, now);
			END IF;
			winners := winners || t.id;
			tokens := tokens || coalesce(t.token, t.n + q.offset);
			sessions := sessions || t.session;
		END IF;
	END LOOP;
	IF NOT FOUND THEN
		q := @mend(q);
	END IF;
	IF cardinality(winners) = 1 THEN
		PERFORM @tell(sessions[1], 'g ' || winners[1] || ' ' || tokens[1] || CASE WHEN q.unclean THEN ' i' ELSE ' -' END || CASE WHEN q.waiting > 0 THEN 'w' ELSE '' END);
	ELSIF cardinality(winners) > 1 THEN
		FOR got IN SELECT s.channel, string_agg('g ' || w.id || ' ' || w.token || CASE WHEN q.unclean THEN ' i' ELSE ' -' END
					|| CASE WHEN q.waiting > 0 AND NOT v_more THEN 'w' ELSE '' END, E'\n' ORDER BY w.i) AS text
				FROM unnest(winners, tokens, sessions) WITH ORDINALITY AS w(id, token, session, i)
				CROSS JOIN LATERAL (SELECT r.channel FROM @session r WHERE r.id = w.session LIMIT 1) s
				WHERE s.channel <> '' GROUP BY s.channel, w.i / 80 LOOP
			PERFORM pg_notify(got.channel, got.text);
		END LOOP;
	END IF;
END $$;

-- Takes out what has ended, and grants whoever is next.
CREATE FUNCTION @sweep(INOUT q @queue, OUT more boolean, OUT changed boolean, now bigint) LANGUAGE plpgsql AS $$
DECLARE
	t @ticket;
	k integer := 0;
	tickets bigint := q.tickets;
	granted bigint := q.granted;
	held bigint := 0;
	got record;
BEGIN
	more := false;
	IF q.id IS NOT NULL THEN
		t := @lone(q);
		IF @ended(t, now) THEN
			q := @remove(q, t, false);
		END IF;
	ELSIF q.tickets > 0 THEN
		FOR t IN SELECT * FROM @ticket r WHERE r.queue = q.name AND r.ends <= now ORDER BY r.ends LIMIT 200 LOOP
			q := @remove(q, t, t.flags & 8 <> 0);
			k := k + 1;
		END LOOP;
		IF q.tickets - q.waiting <= 64 THEN
			FOR t IN SELECT r.* FROM @ticket r WHERE r.queue = q.name AND r.n <= q.granted LOOP
				IF @ended(t, now) THEN
					q := @remove(q, t, t.flags & 8 <> 0);
				ELSE
					held := held + t.units;
				END IF;
			END LOOP;
			IF held <> q.used THEN
				q := @mend(q);
			END IF;
		ELSE
			FOR t IN SELECT r.* FROM @session s JOIN @ticket r ON r.session = s.id AND r.queue = q.name AND r.n <= q.granted
					WHERE s.expires <= now LIMIT 200 LOOP
				IF @ended(t, now) THEN
					q := @remove(q, t, t.flags & 8 <> 0);
					k := k + 1;
				END IF;
			END LOOP;
		END IF;
		more := k >= 200;
		got := @grant(q, now);
		q := got.q;
		more := more OR got.more;
	END IF;
	changed := tickets <> q.tickets OR granted <> q.granted;
END $$;

-- Tells the first hundred of those who hold that somebody waits.
CREATE FUNCTION @want(q @queue) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify(s.channel, 'w ' || t.id)
		FROM (SELECT r.id, r.session FROM @ticket r WHERE r.queue = q.name AND r.n <= q.granted ORDER BY r.n LIMIT 100) t
		CROSS JOIN LATERAL (SELECT r.channel FROM @session r WHERE r.id = t.session LIMIT 1) s WHERE s.channel <> '';
END $$;

-- What is said of a ticket: code, token, inherits, wanted, flags, microseconds until
-- its own end, length of its fixed time, microseconds until something that holds ends,
-- whether the queue is to be settled, how many wait in front of it. Those far behind
-- are not told when something ends, and that only if it has: they need not look.
CREATE FUNCTION @standing(q @queue, t @ticket, due bigint, now bigint) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
	most constant integer := 16;
	held boolean := t.n <= q.granted;
	own boolean := t.flags & 19 <> 0;
	ahead bigint := 0;
	again bigint := 0;
	more integer := 0;
	thawed boolean;
	first @ticket;
BEGIN
	IF NOT held THEN
		thawed := q.frozen <= now OR @grace(q.frozen) <= now;
		ahead := (SELECT count(*) FROM (SELECT FROM @ticket r WHERE r.queue = q.name AND r.n > q.granted AND r.n < t.n ORDER BY r.n LIMIT most) x);
		-- While something is free the first in line, which does not fit, may be dead.
		IF ahead > 0 AND q.used < q.capacity AND thawed THEN
			SELECT * INTO first FROM @ticket r WHERE r.queue = q.name AND r.n > q.granted ORDER BY r.n LIMIT 1;
			due := least(due, @ends(first));
		END IF;
		IF ahead < most THEN
			again := greatest(due - now, 1);
		END IF;
		IF due <= now OR ahead = 0 AND t.units <= q.capacity - q.used AND thawed THEN
			more := 1;
		END IF;
	END IF;
	RETURN ARRAY[CASE WHEN held THEN 1 ELSE 2 END, CASE WHEN held THEN coalesce(t.token, t.n + q.offset) ELSE 0 END,
		CASE WHEN held AND q.unclean THEN 1 ELSE 0 END, CASE WHEN held AND q.waiting > 0 THEN 1 ELSE 0 END, t.flags,
		CASE WHEN own THEN t.ends - now ELSE 0 END, t.hold, again, more, ahead];
END $$;

-- Whether a session is not over.
CREATE FUNCTION @alive(p_session uuid, now bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN EXISTS (SELECT FROM @session s WHERE s.id = p_session AND NOT s.over AND s.expires - now > 0);
END $$;

-- Raises what tokens stay below, long before they come near.
CREATE FUNCTION @raise_high(now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT m.high FROM @meta m WHERE m.one) < now / 10 + 30000000 THEN
		PERFORM FROM @meta m WHERE m.one FOR UPDATE SKIP LOCKED;
		IF FOUND THEN
			DURABLE
			UPDATE @meta m SET high = greatest(m.high, now / 10) + 60000000 WHERE m.one;
		END IF;
	END IF;
END $$;

CREATE FUNCTION @begin(p_session uuid, p_ttl bigint, p_owner text, p_channel text) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint := NOW_US;
BEGIN
	COMMITTED
	IF (SELECT m.longest FROM @meta m WHERE m.one) < p_ttl THEN
		DURABLE
		UPDATE @meta m SET longest = greatest(m.longest, p_ttl) WHERE m.one;
	END IF;
	PERFORM @raise_high(now);
	PERFORM FROM @sentinel r WHERE r.one;
	IF NOT FOUND THEN
		PERFORM @revive();
	END IF;
	PERFORM @thaw();
	INSERT INTO @session(id, channel, owner, ttl, expires, over) VALUES (p_session, p_channel, p_owner, p_ttl, NOW_US + p_ttl, false)
		ON CONFLICT (id) DO NOTHING; -- the network may bring it twice
	RETURN ARRAY[1, @history(), (SELECT greatest(x.safe - NOW_US, 0) FROM @sentinel x WHERE x.one)];
END $$;

CREATE FUNCTION @end(p_session uuid) RETURNS SETOF text LANGUAGE plpgsql PLANS AS $$
BEGIN
	COMMITTED
	UPDATE @session s SET expires = 0, over = true WHERE s.id = p_session;
	RETURN QUERY SELECT DISTINCT t.queue::text FROM @ticket t WHERE t.session = p_session AND t.flags & 1 = 0;
END $$;

CREATE FUNCTION @join(p_queue text, p_kind text, p_capacity bigint, p_id uuid, p_units bigint, p_session uuid, p_owner text,
	p_note bytea, p_hold bigint, nowait boolean, retry boolean, crowded boolean) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint := NOW_US;
	q @queue;
	t @ticket;
	number bigint;
	token bigint;
	swept boolean := false;
	more boolean := false;
	again bigint := 0;
	fits boolean;
	got record;
BEGIN
	COMMITTED
	-- Of those who come to a line, and of those who give up, one at a time goes on to the row
	-- of the queue: so whoever releases waits for two of a crowd, not for all.
	IF crowded THEN
		PERFORM pg_advisory_xact_lock(hashtextextended('@join ' || p_queue, 0));
		now := NOW_US;
	END IF;
	-- The short way: nobody else is there. It is a vain one in a crowd.
	IF p_hold = 0 AND NOT retry AND NOT crowded THEN
		UPDATE @queue r SET kind = p_kind, capacity = p_capacity, last = NEXT(r), granted = NEXT(r),
			used = p_units, tickets = 1, id = p_id, units = p_units, session = p_session, since = now, note = p_note
			WHERE r.name = p_queue AND r.tickets = 0 AND r.slow <= now AND NOT r.watched AND NEXT(r) < r.most AND r.last + r.offset < 2251799813685246
				AND EXISTS (SELECT FROM @session s WHERE s.id = p_session AND NOT s.over AND s.expires - now > 0)
			RETURNING r.last + r.offset, r.unclean INTO token, swept;
		IF FOUND THEN
			RETURN ARRAY[1, token, swept::integer, 0, 0, 0, 0, 0, 0, 0];
		END IF;
	END IF;
	-- The short way to the end of a line, in which those in front look after who holds.
	-- That it changes the row is what locks it.
	IF p_hold = 0 AND NOT retry AND NOT nowait THEN
		UPDATE @queue r SET last = NEXT(r), tickets = r.tickets + 1, waiting = r.waiting + 1
			WHERE r.name = p_queue AND r.waiting > 0 AND r.kind = p_kind AND r.capacity = p_capacity
				AND r.slow <= now AND NOT r.watched AND NEXT(r) < r.most AND r.last + r.offset < 2251799813685246
				AND EXISTS (SELECT FROM @session s WHERE s.id = p_session AND NOT s.over AND s.expires - now > 0)
			RETURNING r.last INTO number;
		IF FOUND THEN
			INSERT INTO @ticket(queue, n, id, units, session, since, note, hold, flags)
				VALUES (p_queue, number, p_id, p_units, p_session, now, p_note, 0, 0)
				ON CONFLICT (id) DO NOTHING;
			IF FOUND THEN
				RETURN '{2, 0, 0, 0, 0, 0, 0, 0, 0, 0}'::bigint[];
			END IF;
			UPDATE @queue r SET tickets = r.tickets - 1, waiting = r.waiting - 1 WHERE r.name = p_queue;
		END IF;
	END IF;
	SELECT * INTO q FROM @queue r WHERE r.name = p_queue FOR UPDATE;
	IF NOT FOUND THEN
		q := @lock(p_queue);
	END IF;
	now := NOW_US;
	IF NOT @alive(p_session, now) THEN
		RETURN ARRAY[-6];
	ELSIF q.slow > now AND EXISTS (SELECT FROM @refused r WHERE r.id = p_id AND r.until > now) THEN
		RETURN ARRAY[-2];
	END IF;
	-- The ticket may stand though this is no repetition: one that was sent after this
	-- may have come before it.
	IF q.id = p_id THEN
		t := @lone(q);
	ELSE
		SELECT * INTO t FROM @ticket r WHERE r.id = p_id;
	END IF;
	IF t.id IS NOT NULL THEN
		IF t.session <> p_session OR @ended(t, now) THEN
			RETURN ARRAY[-2];
		ELSIF t.queue <> p_queue OR q.kind <> p_kind THEN
			RETURN ARRAY[-3];
		END IF;
		IF t.flags & 1 <> 0 THEN
			PERFORM @confirm(); -- its row of fixed may be where no standby has it
		END IF;
		RETURN @standing(q, t, @due(q, now), now) || 1::bigint; -- an eleventh number: it stood
	END IF;
	IF q.tickets > 0 AND (q.kind <> p_kind OR q.capacity <> p_capacity OR q.waiting > 0 OR p_units > q.capacity - q.used) THEN
		got := @sweep(q, now); q := got.q; more := got.more; swept := got.changed;
	END IF;
	IF (q.tickets > 0 OR q.slow = FOREVER) AND (q.kind <> p_kind OR q.capacity <> p_capacity) THEN
		IF swept THEN
			PERFORM @save(q);
		END IF;
		RETURN ARRAY[CASE WHEN more THEN -7 ELSE -3 END];
	END IF;
	fits := (q.frozen <= now OR @grace(q.frozen) <= now) AND q.waiting = 0 AND p_units <= p_capacity - q.used;
	IF NOT fits AND nowait THEN
		IF swept THEN
			PERFORM @save(q);
		END IF;
		RETURN ARRAY[CASE WHEN more THEN -7 ELSE -1 END];
	END IF;
	q.kind := p_kind; q.capacity := p_capacity;
	number := NEXT(q);
	token := number + q.offset;
	IF token >= 2251799813685247 THEN
		RETURN ARRAY[-4];
	ELSIF number >= q.most THEN
		q := @provide(q, number, now);
	END IF;
	q := @unfold(q);
	q.last := number;
	q.tickets := q.tickets + 1;
	IF fits THEN
		q.granted := number;
		q.used := q.used + p_units;
	ELSE
		IF q.waiting = 0 THEN
			PERFORM @want(q);
		END IF;
		q.waiting := q.waiting + 1;
	END IF;
	IF fits AND q.tickets = 1 AND p_hold = 0 THEN
		q.id := p_id; q.units := p_units; q.session := p_session; q.since := now; q.note := p_note;
		PERFORM @save(q);
		RETURN ARRAY[1, token, q.unclean::integer, 0, 0, 0, 0, 0, 0, 0];
	END IF;
	INSERT INTO @ticket(queue, n, id, units, session, since, note, hold, flags, owner)
		VALUES (p_queue, number, p_id, p_units, p_session, now, p_note, p_hold, 0, CASE WHEN p_hold > 0 THEN p_owner END)
		RETURNING * INTO t;
	IF fits AND p_hold > 0 THEN
		t := @fix(q, t, p_hold, p_owner, 0, now);
	END IF;
	PERFORM @save(q);
	IF NOT fits AND q.waiting = 1 THEN
		again := greatest(@due(q, now) - now, 1);
	END IF;
	RETURN ARRAY[CASE WHEN fits THEN 1 ELSE 2 END, CASE WHEN fits THEN token ELSE 0 END, (fits AND q.unclean)::integer, 0,
		t.flags, CASE WHEN t.flags & 1 <> 0 THEN t.ends - now ELSE 0 END, p_hold, again, more::integer, 0];
END $$;

-- Finds a ticket that a session may change, in a queue that is locked.
CREATE FUNCTION @find(q @queue, p_session uuid, p_id uuid, others boolean, now bigint, OUT t @ticket, OUT code bigint) LANGUAGE plpgsql AS $$
BEGIN
	IF q.id = p_id THEN
		t := @lone(q);
	ELSE
		SELECT * INTO t FROM @ticket r WHERE r.id = p_id AND (r.queue = q.name) IS TRUE;
	END IF;
	code := 0;
	IF t.id IS NOT NULL AND t.flags & 1 <> 0 AND (others OR t.session = p_session) THEN
		IF t.ends <= now THEN
			code := -2;
		END IF;
	ELSIF NOT @alive(p_session, now) THEN
		code := -6;
	ELSIF t.id IS NULL OR t.session <> p_session OR @ended(t, now) THEN
		code := -2;
	END IF;
END $$;

-- Returns, after the code, whether the queue is to be settled and whether others are
-- in it. A Join of the ticket that comes later is refused for so long: also if the
-- ticket stands, since one that was sent twice may come twice.
CREATE FUNCTION @leave(p_queue text, p_id uuid, p_session uuid, clean boolean, refuse bigint, crowded boolean) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint := NOW_US;
	q @queue;
	v_granted bigint;
	v_capacity bigint;
	v_offset bigint;
	v_waiting bigint;
	heir bigint;
	heir_id uuid;
	heir_token bigint;
	heir_session uuid;
	heir_channel text;
	fits boolean;
	t @ticket;
	code bigint;
	more boolean := false;
	got record;
BEGIN
	COMMITTED
	-- The short way: nobody else is there. It is a vain one in a crowd.
	IF refuse = 0 AND NOT crowded THEN
		UPDATE @queue r SET tickets = 0, used = 0, id = NULL, units = NULL, session = NULL, note = NULL,
			unclean = CASE WHEN r.units >= r.capacity THEN NOT clean ELSE r.unclean END
			WHERE r.name = p_queue AND r.id = p_id AND r.session = p_session AND NOT r.watched
				AND EXISTS (SELECT FROM @session s WHERE s.id = p_session AND NOT s.over AND s.expires - now > 0);
		IF FOUND THEN
			RETURN '{1, 0, 0}'::bigint[];
		END IF;
	END IF;
	-- The short way from the only holder to the first in line, unless whoever is first
	-- then has to be told of an early end, as grant does.
	IF refuse = 0 THEN
		SELECT r.granted, r.capacity, r.offset, r.waiting INTO v_granted, v_capacity, v_offset, v_waiting FROM @queue r
			WHERE r.name = p_queue AND r.waiting > 0 AND r.id IS NULL AND r.used = r.capacity AND r.frozen <= now AND NOT r.watched
			FOR UPDATE;
		IF FOUND THEN
			now := NOW_US;
			SELECT w.n, w.id, w.token, w.session, w.units = v_capacity AND w.hold = 0 AND w.ends IS NULL INTO heir, heir_id, heir_token, heir_session, fits
				FROM @ticket w WHERE w.queue = p_queue AND w.n > v_granted ORDER BY w.n LIMIT 1;
			IF fits THEN
				SELECT s.channel INTO heir_channel FROM @session s WHERE s.id = heir_session AND NOT s.over
					AND s.expires - now > coalesce((SELECT f.ttl / 2 FROM @session f WHERE f.id =
						(SELECT w.session FROM @ticket w WHERE w.queue = p_queue AND w.n > heir ORDER BY w.n LIMIT 1)), 0);
				IF FOUND THEN
					DELETE FROM @ticket r WHERE r.id = p_id AND (r.queue = p_queue AND r.session = p_session AND r.n <= v_granted
						AND r.units = v_capacity AND r.ends IS NULL) IS TRUE
						AND EXISTS (SELECT FROM @session s WHERE s.id = p_session AND NOT s.over AND s.expires - now > 0);
				END IF;
				fits := FOUND;
			END IF;
			IF fits THEN
				UPDATE @queue r SET granted = heir, tickets = r.tickets - 1, waiting = r.waiting - 1, unclean = NOT clean
					WHERE r.name = p_queue;
				-- A condition costs less than a statement.
				IF heir_channel <> '' AND pg_notify(heir_channel, 'g ' || heir_id || ' ' || coalesce(heir_token, heir + v_offset)
						|| CASE WHEN clean THEN ' -' ELSE ' i' END || CASE WHEN v_waiting > 1 THEN 'w' ELSE '' END) IS NULL THEN
				END IF;
				RETURN '{1, 0, 1}'::bigint[];
			END IF;
		END IF;
	END IF;
	IF refuse > 0 THEN
		q := @lock(p_queue);
	ELSE
		SELECT * INTO q FROM @queue r WHERE r.name = p_queue FOR UPDATE;
		IF NOT FOUND THEN
			RETURN ARRAY[CASE WHEN @alive(p_session, now) THEN -2 ELSE -6 END, 0, 0];
		END IF;
	END IF;
	now := NOW_US;
	got := @find(q, p_session, p_id, true, now); t := got.t; code := got.code;
	IF refuse > 0 AND (code = 0 OR code = -2) AND (t.id IS NULL OR t.session = p_session) THEN
		INSERT INTO @refused(id, until) VALUES (p_id, now + refuse) ON CONFLICT (id) DO UPDATE SET until = excluded.until;
		q.slow := greatest(q.slow, now + refuse);
		UPDATE @queue r SET slow = q.slow WHERE r.name = p_queue;
	END IF;
	IF code < 0 THEN
		IF t.id IS NOT NULL AND code = -2 THEN -- it has ended, and may be in the way
			more := true;
		END IF;
		RETURN ARRAY[code, more::integer, 1];
	END IF;
	IF t.session <> p_session THEN
		PERFORM @tell(t.session, 'x ' || t.id);
	END IF;
	q := @remove(q, t, clean);
	got := @grant(q, now); q := got.q; more := got.more;
	PERFORM @save(q);
	RETURN ARRAY[1, more::integer, (q.tickets > 0)::integer];
END $$;

-- Makes the Joins of a list that the short way is open to, and whose rows are free at once. It returns, for each that
-- was made, its place in the list, token, and whether it inherits.
CREATE FUNCTION @joins(p_queues text[], p_kinds text[], p_capacities bigint[], p_ids uuid[], p_units bigint[], p_sessions uuid[],
	p_notes bytea[]) RETURNS SETOF bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint := NOW_US;
	free text[];
BEGIN
	COMMITTED
	SELECT array_agg(x.name) INTO free FROM (SELECT r.name FROM @queue r
		WHERE r.name = ANY (p_queues) AND r.tickets = 0 FOR UPDATE SKIP LOCKED) x;
	RETURN QUERY UPDATE @queue r SET kind = c.kind, capacity = c.capacity, last = NEXT(r), granted = NEXT(r),
		used = c.units, tickets = 1, id = c.id, units = c.units, session = c.session, since = now, note = c.note
		FROM unnest(p_queues, p_kinds, p_capacities, p_ids, p_units, p_sessions, p_notes)
			WITH ORDINALITY AS c(queue, kind, capacity, id, units, session, note, i)
		WHERE c.queue = ANY (free) AND r.name = c.queue
			AND r.tickets = 0 AND r.slow <= now AND NOT r.watched AND NEXT(r) < r.most AND r.last + r.offset < 2251799813685246
			AND EXISTS (SELECT FROM @session s WHERE s.id = c.session AND NOT s.over AND s.expires - now > 0)
		RETURNING ARRAY[c.i, r.last + r.offset, r.unclean::integer];
END $$;

-- The same of Leaves: it returns the places of those that were made.
CREATE FUNCTION @leaves(p_queues text[], p_ids uuid[], p_sessions uuid[], p_cleans boolean[]) RETURNS SETOF bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint := NOW_US;
	free text[];
BEGIN
	COMMITTED
	SELECT array_agg(x.name) INTO free FROM (SELECT r.name FROM @queue r
		WHERE r.name = ANY (p_queues) AND r.tickets = 1 FOR UPDATE SKIP LOCKED) x;
	RETURN QUERY UPDATE @queue r SET tickets = 0, used = 0, id = NULL, units = NULL, session = NULL, note = NULL,
		unclean = CASE WHEN r.units >= r.capacity THEN NOT c.clean ELSE r.unclean END
		FROM unnest(p_queues, p_ids, p_sessions, p_cleans) WITH ORDINALITY AS c(queue, id, session, clean, i)
		WHERE c.queue = ANY (free) AND r.name = c.queue AND r.id = c.id AND r.session = c.session AND NOT r.watched
			AND EXISTS (SELECT FROM @session s WHERE s.id = c.session AND NOT s.over AND s.expires - now > 0)
		RETURNING ARRAY[c.i];
END $$;

-- Takes out tickets of a session that wait, or waited a moment ago. It returns, after the
-- code and whether the queue is to be settled, for each of them whether it stood.
CREATE FUNCTION @withdraw(p_queue text, p_session uuid, ids uuid[], clean boolean) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint;
	q @queue;
	t @ticket;
	v_id uuid;
	stood bigint[] := '{}';
	more boolean := false;
	got record;
BEGIN
	COMMITTED
	PERFORM pg_advisory_xact_lock(hashtextextended('@withdraw ' || p_queue, 0));
	SELECT * INTO q FROM @queue r WHERE r.name = p_queue FOR UPDATE;
	now := NOW_US;
	IF NOT @alive(p_session, now) THEN
		RETURN ARRAY[-6];
	ELSIF q.name IS NULL THEN
		RETURN '{1, 0}'::bigint[] || array_fill(0::bigint, ARRAY[cardinality(ids)]);
	END IF;
	FOREACH v_id IN ARRAY ids LOOP
		got := @find(q, p_session, v_id, false, now); t := got.t;
		IF got.code = 0 THEN
			q := @remove(q, t, clean);
		ELSIF t.id IS NOT NULL THEN -- it has ended, and may be in the way
			more := true;
		END IF;
		stood := stood || (got.code = 0)::integer::bigint;
	END LOOP;
	IF 1 = ANY (stood) THEN
		got := @grant(q, now); q := got.q; more := more OR got.more;
		PERFORM @save(q);
	END IF;
	RETURN ARRAY[1, more::integer]::bigint[] || stood;
END $$;

CREATE FUNCTION @shrink(p_queue text, p_id uuid, p_session uuid, p_units bigint) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint;
	q @queue;
	t @ticket;
	code bigint;
	more boolean := false;
	got record;
BEGIN
	COMMITTED
	q := @lock(p_queue);
	now := NOW_US;
	got := @find(q, p_session, p_id, false, now); t := got.t; code := got.code;
	IF code < 0 OR p_units >= t.units THEN
		RETURN ARRAY[CASE WHEN code < 0 THEN code ELSE 1 END, 0];
	END IF;
	IF t.n <= q.granted THEN
		IF t.units >= q.capacity AND t.units = q.used THEN
			q.unclean := false; -- the exclusive hold has ended well
		END IF;
		q.used := q.used - (t.units - p_units);
	END IF;
	IF q.id = t.id THEN
		q.units := p_units;
	ELSE
		UPDATE @ticket r SET units = p_units WHERE r.queue = p_queue AND r.n = t.n;
		IF t.flags & 1 <> 0 THEN
			UPDATE @fixed r SET units = p_units WHERE r.id = t.id;
		END IF;
	END IF;
	got := @grant(q, now); q := got.q; more := got.more;
	PERFORM @save(q);
	RETURN ARRAY[1, more::integer];
END $$;

CREATE FUNCTION @keep(p_queue text, p_id uuid, p_session uuid, p_owner text, p_hold bigint) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint;
	q @queue;
	t @ticket;
	code bigint;
	got record;
BEGIN
	q := @lock(p_queue);
	now := NOW_US;
	got := @find(q, p_session, p_id, true, now); t := got.t; code := got.code;
	IF code < 0 THEN
		RETURN ARRAY[code];
	ELSIF t.n > q.granted THEN
		RETURN ARRAY[-5];
	ELSIF t.flags & 2 <> 0 AND t.ends < now + p_hold THEN
		RETURN ARRAY[-2]; -- nothing makes an evicted ticket last longer
	END IF;
	q := @unfold(q);
	PERFORM @fix(q, t, p_hold, p_owner, CASE WHEN t.flags & 1 = 0 THEN 8 ELSE 0 END, now);
	PERFORM @save(q);
	-- The first in line may wait for a later end.
	PERFORM pg_notify(s.channel, 'f ' || w.id || ' 1')
		FROM (SELECT r.id, r.session FROM @ticket r WHERE r.queue = p_queue AND r.n > q.granted ORDER BY r.n LIMIT 1) w
		CROSS JOIN LATERAL (SELECT r.channel FROM @session r WHERE r.id = w.session LIMIT 1) s WHERE s.channel <> '';
	RETURN ARRAY[1];
END $$;

CREATE FUNCTION @settle(p_queue text) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	q @queue;
	got record;
BEGIN
	COMMITTED
	SELECT * INTO q FROM @queue r WHERE r.name = p_queue FOR UPDATE;
	IF NOT FOUND THEN
		RETURN ARRAY[0];
	END IF;
	got := @sweep(q, NOW_US); q := got.q;
	IF got.changed THEN
		PERFORM @save(q);
	END IF;
	RETURN ARRAY[got.more::integer];
END $$;

CREATE FUNCTION @ask(p_queue text, p_id uuid, what text) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint;
	q @queue;
	t @ticket;
	p_ttl bigint;
	more boolean := false;
	got record;
BEGIN
	COMMITTED
	SELECT * INTO q FROM @queue r WHERE r.name = p_queue FOR UPDATE;
	IF NOT FOUND THEN
		RETURN ARRAY[-2, 0];
	END IF;
	now := NOW_US;
	IF q.id = p_id THEN
		t := @lone(q);
	ELSE
		SELECT * INTO t FROM @ticket r WHERE r.id = p_id AND (r.queue = p_queue) IS TRUE;
	END IF;
	IF t.id IS NULL THEN
		RETURN ARRAY[-2, 0];
	ELSIF @ended(t, now) THEN
		RETURN ARRAY[-2, 1];
	END IF;
	IF what = 'r' THEN
		q := @unfold(q);
		UPDATE @ticket r SET flags = r.flags | 4 WHERE r.queue = p_queue AND r.n = t.n;
		PERFORM @tell(t.session, 'r ' || t.id);
	ELSIF what = 'x' OR t.n > q.granted THEN
		PERFORM @tell(t.session, 'x ' || t.id);
		q := @remove(q, t, false);
		got := @grant(q, now); q := got.q; more := got.more;
	ELSE
		q := @unfold(q);
		IF t.flags & 1 <> 0 THEN
			IF t.flags & 8 <> 0 THEN
				SELECT s.ttl INTO p_ttl FROM @session s WHERE s.id = t.session;
				t.ends := least(t.ends, now + coalesce(p_ttl, 15000000));
			END IF;
			UPDATE @fixed r SET ends = t.ends, flags = t.flags | 2 WHERE r.id = t.id;
		ELSE
			-- A renewal of the session that is under way may have promised more.
			PERFORM FROM @session s WHERE s.id = t.session FOR UPDATE;
			t.ends := @ends(t);
		END IF;
		UPDATE @ticket r SET ends = t.ends, flags = (t.flags & ~16) | 2 WHERE r.queue = p_queue AND r.n = t.n;
		PERFORM @tell(t.session, 'e ' || t.id);
		PERFORM pg_notify(s.channel, 'f ' || w.id || ' 1')
			FROM (SELECT r.id, r.session FROM @ticket r WHERE r.queue = p_queue AND r.n > q.granted ORDER BY r.n LIMIT 1) w
			CROSS JOIN LATERAL (SELECT r.channel FROM @session r WHERE r.id = w.session LIMIT 1) s WHERE s.channel <> '';
	END IF;
	PERFORM @save(q);
	RETURN ARRAY[1, more::integer];
END $$;

-- Keeps a raise as an offset to the clock, not as a number to count on from: numbers
-- that a failover has lost are overtaken by the clock, and with them their tokens.
CREATE FUNCTION @raise(p_queue text, p_floor bigint) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	q @queue;
	now bigint;
	raised bigint;
BEGIN
	DURABLE
	q := @lock(p_queue);
	now := NOW_US / 10;
	-- Those that wait have numbers already.
	raised := greatest(q.offset, p_floor + 1 - now, CASE WHEN q.waiting > 0 THEN p_floor - q.granted END);
	IF greatest(q.last, now) + raised >= 2251799813685246 THEN
		RETURN ARRAY[-4];
	END IF;
	INSERT INTO @floor AS f (queue, floor, "offset") VALUES (p_queue, 0, raised)
		ON CONFLICT (queue) DO UPDATE SET "offset" = greatest(f.offset, excluded.offset);
	IF raised > q.offset THEN
		-- Those that hold keep the tokens that they have.
		q := @unfold(q);
		UPDATE @ticket t SET token = t.n + q.offset WHERE t.queue = p_queue AND t.n <= q.granted AND t.token IS NULL;
		q.offset := raised;
		q.last := greatest(q.last, now); -- the clock may be set back before the next one comes
		IF q.tickets = 0 THEN
			q.granted := q.last;
		END IF;
		PERFORM @save(q);
	END IF;
	RETURN ARRAY[1];
END $$;

-- Gives a queue a capacity, which floor keeps; with 0 none is kept; with NULL this goes on with the
-- waiters that do not fit any more. Returns, after the code, whether the queue is to be settled, and
-- whether there are more of these.
CREATE FUNCTION @resize(p_queue text, p_capacity bigint) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	most constant integer := 200;
	now bigint;
	q @queue;
	t @ticket;
	k integer := 0;
	got record;
BEGIN
	DURABLE
	q := @lock(p_queue);
	now := NOW_US;
	got := @sweep(q, now); q := got.q;
	IF q.tickets > 0 AND q.kind <> 'semaphore' THEN
		IF got.changed THEN
			PERFORM @save(q);
		END IF;
		RETURN ARRAY[CASE WHEN got.more THEN -7 ELSE -3 END];
	ELSIF p_capacity > 0 THEN
		INSERT INTO @floor AS f (queue, floor, "offset", capacity) VALUES (p_queue, 0, 0, p_capacity)
			ON CONFLICT (queue) DO UPDATE SET capacity = excluded.capacity;
		UPDATE @fixed r SET capacity = p_capacity WHERE r.queue = p_queue;
		q.kind := 'semaphore'; q.capacity := p_capacity; q.slow := FOREVER;
	ELSIF p_capacity = 0 AND q.slow = FOREVER THEN
		UPDATE @floor f SET capacity = 0 WHERE f.queue = p_queue;
		DELETE FROM @floor f WHERE f.queue = p_queue AND f.floor = 0 AND f.offset = 0;
		q.slow := greatest(q.frozen, now + (SELECT m.longest FROM @meta m WHERE m.one)); -- there may be rows in refused
	END IF;
	FOR t IN SELECT * FROM @ticket r WHERE r.queue = p_queue AND r.n > q.granted AND r.units > q.capacity ORDER BY r.n LIMIT most LOOP
		PERFORM @tell(t.session, 'x ' || t.id);
		q := @remove(q, t, false);
		k := k + 1;
	END LOOP;
	got := @grant(q, now); q := got.q;
	PERFORM @save(q);
	RETURN ARRAY[1, got.more::integer, (k = most)::integer];
END $$;

-- Reads what has become of tickets: a row for each, as of standing.
CREATE FUNCTION @standings(p_session uuid, queues text[], ids uuid[]) RETURNS SETOF bigint[] LANGUAGE plpgsql STABLE PLANS AS $$
DECLARE
	now bigint := NOW_US;
	q @queue;
	t @ticket;
	due bigint;
BEGIN
	FOR i IN 1 .. coalesce(cardinality(ids), 0) LOOP
		IF q.name IS NULL OR q.name <> queues[i] THEN
			SELECT * INTO q FROM @queue r WHERE r.name = queues[i];
			due := CASE WHEN q.waiting > 0 THEN @due(q, now) ELSE now END;
		END IF;
		IF q.id = ids[i] THEN
			t := @lone(q);
		ELSE
			SELECT * INTO t FROM @ticket r WHERE r.id = ids[i] AND (r.queue = queues[i]) IS TRUE;
		END IF;
		IF t.id IS NULL AND NOT EXISTS (SELECT FROM @sentinel r WHERE r.one) THEN
			RAISE 'interlock: after a crash, a new session has to begin first';
		ELSIF t.id IS NULL OR t.flags & 1 = 0 AND t.session <> p_session OR @ends(t) <= now THEN
			RETURN NEXT ARRAY[-2];
		ELSE
			RETURN NEXT @standing(q, t, due, now);
		END IF;
	END LOOP;
END $$;

-- The same for a client that waits. It must not be told of a grant that a failover loses,
-- which one can read if the wait of its commit for a standby was cancelled.
CREATE FUNCTION @look(p_session uuid, queues text[], ids uuid[]) RETURNS SETOF bigint[] LANGUAGE plpgsql PLANS AS $$
BEGIN
	IF NOT UNLOGGED? OR EXISTS (SELECT FROM @fixed r WHERE r.id = ANY (ids)) THEN
		PERFORM @confirm();
	END IF;
	RETURN QUERY SELECT * FROM @standings(p_session, queues, ids);
END $$;

-- Extends a session, and reads what has become of tickets after that. It waits for no
-- queue: whoever has locked one may be waiting for something else.
CREATE FUNCTION @renew(p_session uuid, look_queues text[], look_ids uuid[]) RETURNS SETOF bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint := NOW_US;
BEGIN
	COMMITTED
	UPDATE @session s SET expires = greatest(s.expires, now + s.ttl) WHERE s.id = p_session AND NOT s.over AND s.expires - now > 0;
	IF NOT FOUND THEN
		RETURN NEXT ARRAY[-6];
		RETURN;
	END IF;
	PERFORM @raise_high(now);
	PERFORM @thaw();
	RETURN NEXT ARRAY[1, @history()];
	RETURN QUERY SELECT * FROM @standings(p_session, look_queues, look_ids);
END $$;

-- The tickets of a session without a fixed end.
CREATE FUNCTION @tickets(p_session uuid) RETURNS TABLE(queue text, id uuid) LANGUAGE plpgsql STABLE PLANS AS $$
BEGIN
	RETURN QUERY
		SELECT t.queue::text, t.id FROM @ticket t WHERE t.session = p_session AND t.flags & 1 = 0
		UNION ALL
		SELECT q.name::text, q.id FROM @queue q WHERE q.session = p_session AND q.id IS NOT NULL;
END $$;

-- Gives strays an end of their own, the one that they have now, which renewals that
-- follow do not move. Others lose theirs, unless it has passed.
CREATE FUNCTION @strand(p_session uuid, stray_queues text[], stray_ids uuid[], again_queues text[], again_ids uuid[]) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint;
	locked text[] := '{}';
	v_queue text;
	q @queue;
	t @ticket;
BEGIN
	COMMITTED
	FOR v_queue IN SELECT DISTINCT u.queue COLLATE "C" AS queue FROM unnest(stray_queues || again_queues) u(queue) ORDER BY 1 LOOP
		PERFORM FROM @queue r WHERE r.name = v_queue FOR UPDATE;
		IF FOUND THEN
			locked := locked || v_queue;
		END IF;
	END LOOP;
	-- A renewal that is under way may have promised more.
	PERFORM FROM @session s WHERE s.id = p_session FOR UPDATE;
	now := NOW_US;
	FOREACH v_queue IN ARRAY locked LOOP
		SELECT * INTO STRICT q FROM @queue r WHERE r.name = v_queue;
		IF q.id = ANY (stray_ids) AND q.session = p_session THEN
			q := @unfold(q);
			UPDATE @queue r SET id = NULL, units = NULL, session = NULL, note = NULL WHERE r.name = v_queue;
		END IF;
		FOR t IN SELECT r.* FROM unnest(stray_ids) u(id) CROSS JOIN LATERAL (SELECT * FROM @ticket r WHERE r.id = u.id LIMIT 1) r
				WHERE r.queue = v_queue AND r.session = p_session AND r.ends IS NULL LOOP
			UPDATE @ticket r SET ends = @ends(t), flags = r.flags | 16 WHERE r.queue = t.queue AND r.n = t.n;
		END LOOP;
		UPDATE @ticket r SET ends = NULL, flags = r.flags & ~16 WHERE r.id = ANY (again_ids) AND (r.queue = v_queue
			AND r.session = p_session AND r.flags & 16 <> 0 AND r.ends > now) IS TRUE;
	END LOOP;
	RETURN ARRAY[1];
END $$;

-- Reads queues: a row for each ticket, in order. One that was resized has a row in front that
-- says so, with an end that has passed: programs that do not know of it leave it out. What
-- changes between the two statements, whoever follows is told.
CREATE FUNCTION @read(p_names text[], p_channel text) RETURNS TABLE(name text, kind text, capacity bigint, at bigint, id uuid, owner text,
	note bytea, units bigint, held boolean, token bigint, since bigint, ends bigint, fixed boolean) LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint;
BEGIN
	IF p_channel <> '' THEN
		PERFORM @lock(p_names[1]);
		UPDATE @queue q SET watched = true WHERE q.name = p_names[1];
		INSERT INTO @watch(what, name, channel, since) VALUES ('queue', p_names[1], p_channel, NOW_US) ON CONFLICT DO NOTHING;
	END IF;
	now := NOW_US;
	RETURN QUERY
		SELECT u.name, 'semaphore, resized', f.capacity, now, '00000000-0000-0000-0000-000000000000'::uuid, '', NULL::bytea, 0::bigint, false, 0::bigint, 0::bigint, 0::bigint, false
		FROM unnest(p_names) u(name)
		CROSS JOIN LATERAL (SELECT * FROM @floor r WHERE r.queue = u.name LIMIT 1) f WHERE f.capacity > 0;
	RETURN QUERY
		SELECT q.name::text, q.kind, q.capacity, now, t.id, coalesce(t.owner, s.owner, ''), t.note, t.units, t.n <= q.granted,
			CASE WHEN t.n <= q.granted THEN coalesce(t.token, t.n + q.offset) ELSE 0 END, t.since,
			CASE WHEN t.flags & 1 <> 0 THEN t.ends WHEN s.id IS NULL OR s.expires = 0 THEN 0 ELSE coalesce(t.ends, greatest(s.expires, t.since + s.ttl)) END,
			t.flags & 1 <> 0
		FROM unnest(p_names) WITH ORDINALITY u(name, i)
		CROSS JOIN LATERAL (SELECT * FROM @queue r WHERE r.name = u.name LIMIT 1) q
		CROSS JOIN LATERAL (
			SELECT q.granted AS n, q.id, q.units, q.session, q.since, q.note, NULL::bigint AS ends, 0 AS flags, NULL::text AS owner, NULL::bigint AS token
				WHERE q.id IS NOT NULL
			UNION ALL
			SELECT r.n, r.id, r.units, r.session, r.since, r.note, r.ends, r.flags, r.owner, r.token FROM @ticket r WHERE r.queue = q.name
		) t
		LEFT JOIN LATERAL (SELECT * FROM @session r WHERE r.id = t.session LIMIT 1) s ON true
		ORDER BY u.i, t.n;
END $$;

-- The names of queues that have tickets.
CREATE FUNCTION @names(prefix text, after text) RETURNS SETOF text LANGUAGE plpgsql STABLE PLANS AS $$
BEGIN
	RETURN QUERY SELECT q.name::text FROM @queue q
		WHERE q.name > after AND q.name >= prefix AND starts_with(q.name, prefix) AND q.tickets > 0
		ORDER BY q.name LIMIT 100;
END $$;

CREATE FUNCTION @load(p_name text, p_channel text) RETURNS TABLE(version bigint, present boolean, value bytea) LANGUAGE plpgsql PLANS AS $$
BEGIN
	IF p_channel <> '' THEN -- whoever watches a cell and whoever changes it take turns
		PERFORM pg_advisory_xact_lock(hashtextextended('@cell ' || p_name, 0));
		INSERT INTO @watch(what, name, channel, since) VALUES ('cell', p_name, p_channel, NOW_US) ON CONFLICT DO NOTHING;
	END IF;
	RETURN QUERY SELECT c.version, c.present, c.value FROM @cell c WHERE c.name = p_name;
END $$;

CREATE FUNCTION @swap(p_id uuid, p_name text, p_version bigint, p_present boolean, p_value bytea) RETURNS bigint[] LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint;
	was bigint;
	made bigint;
	c text;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('@cell ' || p_name, 0));
	DURABLE
	now := NOW_US;
	SELECT r.version INTO made FROM @swap r WHERE r.id = p_id FOR UPDATE; -- it is written, so that the commit waits as the first one did
	IF FOUND THEN
		RETURN ARRAY[made];
	END IF;
	SELECT r.version INTO was FROM @cell r WHERE r.name = p_name;
	was := coalesce(was, 0);
	IF p_version < was THEN
		RETURN ARRAY[0]; -- and for ever
	ELSIF p_version > was THEN
		INSERT INTO @swap(id, at, version) VALUES (p_id, now, 0);
		RETURN ARRAY[0];
	END IF;
	made := greatest(was + 1, now / 10);
	INSERT INTO @cell(name, version, present, value) VALUES (p_name, made, p_present, p_value)
		ON CONFLICT (name) DO UPDATE SET version = excluded.version, present = excluded.present, value = excluded.value;
	INSERT INTO @swap(id, at, version) VALUES (p_id, now, made);
	FOR c IN DELETE FROM @watch w WHERE w.what = 'cell' AND w.name = p_name RETURNING w.channel LOOP
		PERFORM pg_notify(c, 'c ' || p_name);
	END LOOP;
	RETURN ARRAY[made];
END $$;

-- Removes what nobody needs any more, a bounded number of rows, and returns queues in
-- which tickets have ended.
CREATE FUNCTION @tidy() RETURNS SETOF text LANGUAGE plpgsql PLANS AS $$
DECLARE
	now bigint := NOW_US;
	hour constant bigint := 3600000000;
BEGIN
	DELETE FROM @refused r WHERE r.id IN (SELECT o.id FROM @refused o WHERE o.until < now - 60000000 LIMIT 1000 FOR UPDATE SKIP LOCKED);
	DELETE FROM @watch w WHERE (w.what, w.name, w.channel) IN (SELECT o.what, o.name, o.channel FROM @watch o WHERE o.since < now - hour LIMIT 1000 FOR UPDATE SKIP LOCKED);
	DELETE FROM @swap s WHERE s.id IN (SELECT o.id FROM @swap o WHERE o.at < now - 300000000 LIMIT 1000 FOR UPDATE SKIP LOCKED);
	DELETE FROM @fixed f WHERE f.id IN (SELECT o.id FROM @fixed o WHERE o.ends < now - 24 * hour LIMIT 1000 FOR UPDATE SKIP LOCKED);
	DELETE FROM @session s WHERE s.id IN (
		SELECT o.id FROM @session o WHERE o.expires + 2 * o.ttl < now - 60000000
			AND NOT EXISTS (SELECT FROM @ticket t WHERE t.session = o.id) LIMIT 100 FOR UPDATE SKIP LOCKED);
	-- A row that is made anew begins above all that are removed.
	WITH idle AS (
		SELECT q.name FROM @queue q WHERE q.tickets = 0 AND NOT q.watched AND q.slow <= now
			AND q.last < (now - CASE WHEN q.unclean THEN 168 * hour ELSE hour END) / 10 LIMIT 100 FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM @queue q USING idle WHERE q.name = idle.name RETURNING q.last
	)
	UPDATE @sentinel x SET floor = greatest(x.floor, (SELECT max(gone.last) FROM gone)) WHERE x.one AND EXISTS (SELECT FROM gone);
	RETURN QUERY SELECT DISTINCT d.queue::text FROM (
		(SELECT t.queue FROM @ticket t WHERE t.ends <= now LIMIT 100)
		UNION ALL
		(SELECT q.name FROM @queue q LEFT JOIN @session s ON s.id = q.session
			WHERE q.id IS NOT NULL AND (s.id IS NULL OR greatest(s.expires, q.since + s.ttl) <= now) LIMIT 100)
		UNION ALL
		(SELECT t.queue FROM @session s JOIN @ticket t ON t.session = s.id AND t.ends IS NULL WHERE s.expires <= now LIMIT 100)) d;
END $$;
