// Package session holds what pg-kinetic knows of one client's session apart
// from its connection: the settings it asked for at startup or by SET, and how
// they come to hold on every backend that serves it, and only there.
//
//   - Profile is a client's settings, Judge makes that of its startup packet.
//   - Applied is what one backend carries, and the batch that changes it.
//   - Settings follows what one client SETs, and changes its Profile.
//
// # The calls of Settings, and when
//
// The engine keeps for each client a *Settings, nil until a text has one of the
// flags Changes, and its two Profiles: first, as judged at login, and prof, as it
// is now. All methods may be called on nil. "flags" are those of the text
// (sqllex.Scan).
//
//	message sent          Query, or Execute of a prepared statement's text:
//	                      if flags&Changes != 0 || st.Live() && flags&WhileLive != 0 {
//	                          ops = sqllex.AppendOps(ops[:0], text)
//	                          st.Sent(tracker.Sent(), ops, text)
//	                      }
//	                      behind Offer, so that Sent is the message's number. Not at
//	                      Parse: parsing changes nothing. A text that streams
//	                      through, and whose flags at its end are such, may be
//	                      anything: st.Unfollowed(number).
//	                      While st.Waits(first), what comes behind the Query or the
//	                      group's Sync is held until that is answered (and Restore
//	                      or Resolve, and a batch, are on their way): drivers pack
//	                      DISCARD ALL before the next command.
//	CommandComplete       st.Step(number, tag), and PortalSuspended st.Step(number,
//	                      nil): number is tracker.Done()+1 before Receive, tag
//	                      without its zero byte. Not for what is Swallow.
//	ErrorResponse         st.Error(), whosever it is
//	any message           st.Settle(&tracker), last, behind Receive and Step/Error,
//	                      before Ready
//	ReadyForQuery         st.Ready(status), whosever it is; then, while it is the last
//	                      one owed, q := st.Restore(buf[:0], status, first): if not
//	                      empty, a Query to inject before the client's next message
//	                      goes out; its error ends the client.
//	all is answered,      prof, r := st.Resolve(prof, first, &server.applied, reported)
//	status I, before the  r == Resolved: prof is the client's Profile; release, or
//	server is released      keep it where something else pins it
//	                      r == AskServer: inject st.AppendReadBack, give what answers it to
//	                        st.Answer(typ, body), and call Resolve again behind its
//	                        ReadyForQuery. Nothing of the client goes out meanwhile.
//	                      r == KeepServer: pin (reason unknown), and Resolve again when
//	                        all is answered the next time
//	the client keeps its  if Applied.Batch has something for prof, it goes before the
//	server, or is linked    client's next request, as at a link: a RESET takes the client
//	to one                  back to its startup values, which the server does not know
//	the client leaves,    st.Leave(&server.applied), before the server is cleaned or
//	or is closed, linked    given to anybody
//	the server is lost    lost := st.Lost(): the client's settings are not known any
//	                      more and it must not go on (FATAL, as after a lost block)
//
// What a text shows is followed exactly. Not followed is what happens inside
// functions: what DO, CALL or EXECUTE may have set is taken back before the
// backend carries out another request (Applied says so), though the client set it.
// Within one Query, or one group, a statement behind a RESET sees the server's own
// value and not the client's startup value.
//
// DISCARD ALL undoes other things as well, and ends pins: that is the caller's.
package session
