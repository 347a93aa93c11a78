// Package exchange is the client side of backends whose queues are tables of a SQL
// database: it implements package driver over a [Store], the exchanges with one
// database.
//
// It keeps no state that decides: what a ticket is, the database says. What it
// keeps is what has to be remembered between exchanges: which tickets are this
// client's, what was heard of them, and from when on that is proven.
//
// # Tables
//
// A Store has rows for queues, tickets, sessions and cells, and these rules:
//
//   - Every exchange is one short transaction. One that changes tickets locks the
//     row of their queue first; if it changes several queues, in the order of their
//     names. A row of a session is locked after those of queues, and only Renew and
//     End, of their own session, wait for that. Nothing is relied on that was read
//     before the lock was there.
//   - A ticket is held if and only if its number is at most the last granted number
//     of its queue, so that a grant changes no ticket.
//   - Time is that of the database server.
//   - A session has one end, which Renew moves. A ticket has an end of its own if it
//     is fixed, evicted or a stray. Else it ends with its session, but not before one
//     TTL after its Join has passed.
//   - A session whose end has passed is over as soon as anybody has acted upon it:
//     whoever takes out a ticket because its session has ended marks the session,
//     with its row locked, and Renew does not extend a session that is marked, or
//     whose end has passed. So nobody is told that a ticket is kept that somebody
//     else is just taking out.
//   - Whatever commits a grant sends the news of it to the winner's client.
package exchange
