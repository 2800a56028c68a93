package sqlstore

// byFunctions is the step after which PostgreSQL does in one call what took several
// statements.
//
// ordering_commit makes numbers done: of streams, which are sorted, those from first
// to final, both included. The numbers of a stream are the next ones, as a rule; then
// one UPDATE is all. Otherwise they are added to what is done above last. If the term
// is over, or a token is not that of the stream's holder, or a number is done, or the
// caller knows more as done than the row has, it raises the error of class IL, which
// ends the transaction; which of these it was is found out afterwards. Rows are locked
// in the order of the streams.
//
// ordering_acquire gives streams new fencing tokens and returns what is stored of them.
// It reads that in a second statement, which sees what was committed until it had the
// rows. The tokens need not be on disk when it returns: if the server crashes and loses
// one, the old token is valid again and the new one refused, so there is still exactly
// one holder that can commit. A lost token must not be issued again. So tokens are
// times of the server's clock, in microseconds; if that goes back, they continue from
// the last one.
//
// ordering_known returns the commands with the IDs that are known. To wait for
// transactions that are writing one of the others, it inserts these, and undoes that.
const byFunctions = `
	CREATE FUNCTION ordering_commit(of_consumer BIGINT, of_part TEXT, of_number BIGINT, of_token BIGINT,
			streams TEXT[], firsts BIGINT[], finals BIGINT[], fences BIGINT[], knowns BIGINT[]) RETURNS VOID LANGUAGE plpgsql AS $$
	DECLARE
		was RECORD;
		low BIGINT;
		high BIGINT;
		beside BIGINT;
	BEGIN
		IF NOT ordering_in_term(of_consumer, of_part, of_number, of_token) THEN
			RAISE EXCEPTION 'the term is over' USING ERRCODE = 'IL001';
		END IF;
		FOR i IN 1 .. coalesce(cardinality(streams), 0) LOOP
			UPDATE ordering_streams SET last = finals[i]
				WHERE consumer = of_consumer AND stream = streams[i] AND last = firsts[i] - 1 AND fence = fences[i] AND spans = 0 AND knowns[i] < firsts[i];
			CONTINUE WHEN FOUND;
			SELECT last, spans, fence INTO was FROM ordering_streams WHERE consumer = of_consumer AND stream = streams[i] FOR UPDATE;
			IF NOT FOUND OR fences[i] = 0 OR was.fence <> fences[i] OR knowns[i] > was.last OR firsts[i] <= was.last OR EXISTS (
				SELECT FROM ordering_done d WHERE d.consumer = of_consumer AND d.stream = streams[i] AND d.first <= finals[i] AND d.last >= firsts[i])
			THEN
				RAISE EXCEPTION 'a number of stream % cannot be done', streams[i] USING ERRCODE = 'IL001';
			END IF;
			low := firsts[i];
			high := finals[i];
			DELETE FROM ordering_done d WHERE d.consumer = of_consumer AND d.stream = streams[i] AND d.first = high + 1 RETURNING d.last INTO beside;
			IF FOUND THEN
				high := beside;
				was.spans := was.spans - 1;
			END IF;
			DELETE FROM ordering_done d WHERE d.consumer = of_consumer AND d.stream = streams[i] AND d.last = low - 1 AND d.first = (
				SELECT max(b.first) FROM ordering_done b WHERE b.consumer = of_consumer AND b.stream = streams[i] AND b.first < low) RETURNING d.first INTO beside;
			IF FOUND THEN
				low := beside;
				was.spans := was.spans - 1;
			END IF;
			IF low = was.last + 1 THEN
				was.last := high;
			ELSE
				INSERT INTO ordering_done (consumer, stream, first, last) VALUES (of_consumer, streams[i], low, high);
				was.spans := was.spans + 1;
			END IF;
			UPDATE ordering_streams SET last = was.last, spans = was.spans WHERE consumer = of_consumer AND stream = streams[i];
		END LOOP;
	END $$;

	CREATE FUNCTION ordering_known(of_consumer BIGINT, of_part TEXT, of_number BIGINT, of_token BIGINT, ids TEXT[])
			RETURNS SETOF ordering_commands LANGUAGE plpgsql AS $$
	BEGIN
		IF NOT ordering_in_term(of_consumer, of_part, of_number, of_token) THEN
			RAISE EXCEPTION 'the term is over' USING ERRCODE = 'IL001';
		END IF;
		BEGIN
			INSERT INTO ordering_commands (consumer, id, hash, status, attempts, error, started, ended, decider, reason)
				SELECT of_consumer, i, '', 0, 0, '', 0, 0, '', '' FROM unnest(ids) i ORDER BY i COLLATE "C" ON CONFLICT DO NOTHING;
			RAISE EXCEPTION 'undone' USING ERRCODE = 'IL002';
		EXCEPTION WHEN SQLSTATE 'IL002' THEN
			NULL;
		END;
		RETURN QUERY SELECT * FROM ordering_commands c WHERE c.consumer = of_consumer AND c.id = ANY (ids);
	END $$;

	CREATE FUNCTION ordering_acquire(of_consumer BIGINT, of_part TEXT, of_number BIGINT, of_token BIGINT, wanted TEXT[])
			RETURNS TABLE (stream TEXT, last BIGINT, ended BIGINT, fence BIGINT, parking TEXT, closed_at BIGINT, held_at BIGINT, done TEXT) LANGUAGE plpgsql AS $$
	#variable_conflict use_column
	BEGIN
		IF NOT ordering_in_term(of_consumer, of_part, of_number, of_token) THEN
			RETURN;
		END IF;
		PERFORM set_config('synchronous_commit', 'off', true);
		INSERT INTO ordering_streams AS s (consumer, stream, last, fence, part)
			SELECT of_consumer, w, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, of_part
			FROM unnest(wanted) w ORDER BY w COLLATE "C"
			ON CONFLICT (consumer, stream) DO UPDATE SET fence = greatest(s.fence + 1, excluded.fence), part = excluded.part;
		RETURN QUERY SELECT s.stream::text, s.last, s.ended, s.fence, s.parking::text, s.closed_at,
				coalesce((SELECT min(h.number) FROM ordering_held_positions h WHERE h.consumer = s.consumer AND h.stream = s.stream), 0),
				CASE WHEN s.spans > 0 THEN (SELECT json_agg(json_build_object('From', d.first, 'To', d.last) ORDER BY d.first)::text
					FROM ordering_done d WHERE d.consumer = s.consumer AND d.stream = s.stream) END
			FROM ordering_streams s WHERE s.consumer = of_consumer AND s.stream = ANY (wanted) ORDER BY s.stream;
	END $$`
