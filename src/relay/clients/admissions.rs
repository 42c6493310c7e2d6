//! Admitted connections by session id: sources, viewers and waiting clients. A revoked token
//! disconnects the connections that it admitted, and `max-viewers` limits their number.
//!
//! Without tokens there are no entries.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use super::viewer_counts::ViewerCounts;
use super::{Clients, Phase, WaitOutcome};
use crate::gate::{SessionId, network_of};
use crate::http::{Refusal, Status};
use crate::relay::ConnectionId;
use crate::relay::admission::{Admission, SessionState};
use crate::relay::context::Context;
use crate::relay::cut_reason::CutReason;
use crate::relay::event::Event;
use crate::relay::origin_error::OriginError;
use crate::time::UnixTime;

/// Connections admitted by each session id.
#[derive(Default)]
pub(super) struct Admissions {
    pub(super) by_credential: HashMap<SessionId, BTreeSet<ConnectionId>>,
    /// Number of viewers among them, and HLS addresses.
    pub(super) viewers: ViewerCounts,
}

/// Returns how long a client that asked for a playlist or a segment counts as a viewer. Players ask
/// at least once a segment, which may be longer than configured.
pub(super) fn hls_address_time(ctx: &Context) -> Duration {
    Duration::from_secs(30) + 3 * ctx.settings().limits.hls_segment_time
}

impl Admissions {
    pub(super) fn enter(&mut self, admission: &Admission, id: ConnectionId) {
        let ids = self
            .by_credential
            .entry(admission.credential.clone())
            .or_default();
        ids.insert(id);
        self.viewers.enter(admission);
    }

    fn leave(&mut self, admission: &Admission, id: ConnectionId) {
        if let Some(ids) = self.by_credential.get_mut(&admission.credential) {
            ids.remove(&id);
            self.viewers.leave(admission);
            if ids.is_empty() {
                self.by_credential.remove(&admission.credential);
            }
        }
        if self.by_credential.is_empty() {
            self.by_credential = HashMap::new();
        }
    }
}

impl Clients {
    /// Records an admitted client. `admission` is `None` if tokens are off.
    pub fn admit(&mut self, id: ConnectionId, admission: Option<Admission>, ctx: &mut Context) {
        self.leave(id);
        if let Some(connection) = self.connections.get_mut(id)
            && let Some(admission) = admission
        {
            self.admissions.enter(&admission, id);
            connection.admission = Some(Box::new(admission));
        }
        self.rearm(id, ctx);
    }

    /// Counts the address of a client that gets a playlist or a segment as a viewer for a while.
    pub fn count_hls(&mut self, id: ConnectionId, ctx: &Context) {
        if let Some(connection) = self.connections.get(id)
            && let Some(admission) = &connection.admission
            && admission.is_counted_hls()
        {
            let address = (
                admission.credential.clone(),
                network_of(connection.peer.ip()),
            );
            let (session, until) = (admission.session.clone(), ctx.now() + hls_address_time(ctx));
            self.admissions.viewers.count_hls(address, session, until);
        }
    }

    /// Removes the connection's admission record.
    pub(super) fn leave(&mut self, id: ConnectionId) {
        let connection = self.connections.get_mut(id);
        if let Some(admission) = connection.and_then(|connection| connection.admission.take()) {
            self.admissions.leave(&admission, id);
        }
    }

    /// Returns the session id that admitted a client. `None`: it is not admitted, or tokens are
    /// off.
    pub fn admitted_by(&self, id: ConnectionId) -> Option<&SessionId> {
        Some(&self.connections.get(id)?.admission.as_ref()?.credential)
    }

    /// Adds to the state of a session the viewers that it has, and what depends on the client: the
    /// number of viewers with its session id (`credential`), and whether an HLS player at its
    /// address counts already or has room.
    pub fn complete_session_state(
        &self,
        session: &SessionId,
        credential: &SessionId,
        from: Option<IpAddr>,
        session_state: SessionState,
    ) -> SessionState {
        let viewers = &self.admissions.viewers;
        let is_counted = from.is_some_and(|from| viewers.has_hls(credential, session, from));
        let has_room = is_counted || viewers.has_room_for_hls(session);
        SessionState {
            viewers: viewers.of(session, session),
            viewers_by_credential: viewers.of(credential, session),
            hls_address: has_room.then_some(is_counted),
            ..session_state
        }
    }

    /// Removes expired addresses of HLS players.
    pub fn remove_expired_hls(&mut self, ctx: &Context) {
        self.admissions.viewers.remove_expired(ctx.now());
    }

    /// Sets the end of the token for all clients that the session id admitted to this session.
    /// Clients of an older token with this session id, which opened another session, keep their
    /// end.
    pub fn end_at(
        &mut self,
        (credential, session): (&SessionId, &SessionId),
        ends: Option<UnixTime>,
        ctx: &mut Context,
    ) {
        for id in self.all_by(credential) {
            let connection = self.connections.get_mut(id);
            let admission = connection.and_then(|connection| connection.admission.as_mut());
            let admission = admission.filter(|admission| admission.session == *session);
            if admission.is_some_and(|admission| admission.end_at(ends)) {
                self.rearm(id, ctx);
            }
        }
    }

    /// Sets the timers for the ends of tokens again, after the clock was set forward.
    pub fn rearm_admitted(&mut self, ctx: &mut Context) {
        let all = self.admissions.by_credential.values();
        let ids: Vec<ConnectionId> = all.flatten().copied().collect();
        for id in ids {
            self.rearm(id, ctx);
        }
    }

    /// Returns all clients that the session id admitted.
    pub fn all_by(&self, credential: &SessionId) -> Vec<ConnectionId> {
        let ids = self.admissions.by_credential.get(credential).into_iter();
        ids.flatten().copied().collect()
    }

    /// Disconnects a client for this reason, if it is a source, a viewer, or waits.
    pub fn expel(&mut self, id: ConnectionId, reason: &'static str, ctx: &mut Context) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        match &connection.phase {
            Phase::Viewer(_) => ctx.notify(Event::CutViewer(id, CutReason::Token)),
            Phase::Source(_) => {
                let refusal = Refusal::new(Status::Forbidden, reason);
                self.lose_source(id, &refusal, reason, ctx);
            }
            // It is refused in its turn: its token is over. Where origins admit viewers, the gate
            // would let it go on without one, and its deadline would come again at once.
            Phase::Waiting(_) => {
                let outcome = match ctx.settings().asks_origin {
                    true => WaitOutcome::TurnedAway(OriginError::Forbidden),
                    false => WaitOutcome::Called,
                };
                self.call_one(id, outcome);
            }
            Phase::Opening
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::ListResponse(_)
            | Phase::EventReader(_)
            | Phase::PendingCall(_)
            | Phase::OriginRequest(_)
            | Phase::PeerRequest(_)
            | Phase::AwaitingJournal
            | Phase::Lingering(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::session;
    use crate::relay::stage::Stage;

    const API: &str = "--token-server=10.0.0.0/24";

    #[track_caller]
    fn call(stage: &mut Stage, line: &str) {
        let id = stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert!(
            stage.text(id).starts_with("HTTP/1.1 20"),
            "{line}: {}",
            stage.text(id)
        );
        stage.lose(id);
    }

    fn add(stage: &mut Stage, parameters: &str) {
        call(
            stage,
            &format!("POST /api/add-token?type=http&{parameters}"),
        );
    }

    fn publish(stage: &mut Stage, name: &str) -> ConnectionId {
        let head = "HTTP/1.1\r\nHost: h\r\nContent-Length: 999\r\n\r\nmedia";
        stage.client(&format!("PUT /stream/{name} {head}"))
    }

    fn by(stage: &Stage, name: &str) -> Vec<ConnectionId> {
        stage.relay.clients.all_by(&session(name))
    }

    /// A source and a viewer by a session's own name, and one of each kind by a key to it.
    struct Scene {
        stage: Stage,
        source: ConnectionId,
        viewer: ConnectionId,
        guest: ConnectionId,
        other: ConnectionId,
    }

    impl Scene {
        fn new() -> Scene {
            let mut stage = Stage::new(&[
                API,
                "--wait=60",
                "--head-time=3600",
                "--viewer-stall-time=3600",
                "--source-idle-time=3600",
                "--body-rate=0",
            ]);
            for token in [
                "sessionid=s",
                "sessionid=k&for=s&direction=out",
                "sessionid=l&for=s&direction=out",
            ] {
                add(&mut stage, token);
            }
            let source = publish(&mut stage, "s");
            let [viewer, guest, other] = ["s", "k", "l"].map(|name| stage.viewer(name));
            for id in [viewer, guest, other] {
                stage.assert_status(id, 200);
            }
            Scene {
                stage,
                source,
                viewer,
                guest,
                other,
            }
        }

        /// Which of them are gone.
        fn gone(&self) -> [bool; 4] {
            let all = [self.source, self.viewer, self.guest, self.other];
            all.map(|id| {
                !self.stage.relay.clients.has(id)
                    || !self.stage.text(id).starts_with("HTTP/1.1 200") && id != self.source
            })
        }
    }

    #[test]
    fn each_client_is_known_by_the_name_that_admitted_it() {
        let mut scene = Scene::new();
        let stage = &scene.stage;
        assert_eq!(by(stage, "s"), [scene.source, scene.viewer]);
        assert_eq!(by(stage, "k"), [scene.guest]);
        assert_eq!(by(stage, "none"), []);
        let clients = &stage.relay.clients;
        for (id, name) in [(scene.source, "s"), (scene.viewer, "s"), (scene.guest, "k")] {
            assert_eq!(clients.admitted_by(id), Some(&session(name)));
        }
        assert_eq!(clients.admitted_by(ConnectionId::from_u64(99)), None);
        // The session's own id counts all of its viewers, another id the viewers that it admitted.
        for (name, viewers) in [("s", 3), ("k", 1), ("none", 0)] {
            let session_state = SessionState::default();
            let session_state =
                clients.complete_session_state(&session("s"), &session(name), None, session_state);
            assert_eq!(session_state.viewers_by_credential, viewers, "{name}");
            assert_eq!(session_state.hls_address, Some(false));
        }
        scene.stage.lose(scene.guest);
        assert_eq!(by(&scene.stage, "k"), []);
        let viewers = &scene.stage.relay.clients.admissions.viewers;
        assert_eq!(viewers.of(&session("s"), &session("s")), 2);
    }

    /// An expired or revoked token disconnects the clients that it admitted, and no others.
    #[test]
    fn with_a_token_those_are_ended_who_came_by_it() {
        let of_k = [false, false, true, false];
        let mut scene = Scene::new();
        call(
            &mut scene.stage,
            "DELETE /api/revoke-token?sessionid=k&abort=true",
        );
        assert_eq!(scene.gone(), of_k);
        // It will be over, a second later than it says: a part of the first one had passed.
        let mut scene = Scene::new();
        add(&mut scene.stage, "sessionid=k&for=s&direction=out&ends=20");
        scene.stage.wait(Duration::from_secs(20));
        assert_eq!(scene.gone(), [false; 4]);
        scene.stage.wait(Duration::from_secs(1));
        assert_eq!(scene.gone(), of_k);
        // Sooner than it was said first; and later.
        for (then, ends) in [(20, 20), (60, 60)] {
            let mut scene = Scene::new();
            for seconds in [40, then] {
                let token = format!("sessionid=k&for=s&direction=out&ends={seconds}");
                add(&mut scene.stage, &token);
            }
            scene.stage.wait(Duration::from_secs(ends));
            assert_eq!(scene.gone(), [false; 4], "{then}");
            scene.stage.wait(Duration::from_secs(1));
            assert_eq!(scene.gone(), of_k, "{then}");
        }
    }

    /// The viewer that the revoked token admitted keeps its end.
    #[test]
    fn a_new_token_of_the_same_name_for_another_session_changes_no_end() {
        let mut scene = Scene::new();
        add(&mut scene.stage, "sessionid=k&for=s&direction=out&ends=20");
        call(&mut scene.stage, "DELETE /api/revoke-token?sessionid=k");
        add(&mut scene.stage, "sessionid=k&for=t&direction=out");
        scene.stage.wait(Duration::from_secs(20));
        assert_eq!(scene.gone(), [false; 4]);
        scene.stage.wait(Duration::from_secs(1));
        assert_eq!(scene.gone(), [false, false, true, false]);
    }

    /// Such a token admits nobody over HTTP, so it says nothing about their end.
    #[test]
    fn a_new_token_of_udp_clients_changes_no_end() {
        let mut scene = Scene::new();
        let address = "10.0.0.1:5004".parse().expect("an address");
        scene.stage.relay.set_rtp(address);
        add(&mut scene.stage, "sessionid=s&ends=20");
        call(&mut scene.stage, "DELETE /api/revoke-token?sessionid=s");
        call(
            &mut scene.stage,
            "POST /api/add-token?type=rtp-udp&sessionid=s&udp-clients=10.0.0.3:5004",
        );
        scene.stage.wait(Duration::from_secs(20));
        assert_eq!(scene.gone(), [false; 4]);
        scene.stage.wait(Duration::from_secs(1));
        assert!(scene.gone()[1]);
    }

    /// The viewer that the revoked token admitted counts for its own session only.
    #[test]
    fn a_new_token_of_the_same_name_counts_only_its_own_viewers() {
        let mut scene = Scene::new();
        call(&mut scene.stage, "DELETE /api/revoke-token?sessionid=k");
        add(&mut scene.stage, "sessionid=t");
        add(
            &mut scene.stage,
            "sessionid=k&for=t&direction=out&max-viewers=1",
        );
        publish(&mut scene.stage, "t");
        for status in [200, 503] {
            let viewer = scene.stage.viewer("k");
            scene.stage.assert_status(viewer, status);
        }
    }

    /// The time is the host clock's, which may be set forward.
    #[test]
    fn when_it_is_later_than_was_thought_a_token_is_over_sooner() {
        let mut scene = Scene::new();
        add(
            &mut scene.stage,
            "sessionid=k&for=s&direction=out&ends=1000",
        );
        // What was due before that has been looked at.
        scene.stage.wait(Duration::from_secs(200));
        let now = scene.stage.now;
        scene
            .stage
            .relay
            .set_unix_time(Duration::from_secs(200 + 700), now);
        scene.stage.settle();
        scene.stage.wait(Duration::from_secs(100));
        assert_eq!(scene.gone(), [false; 4]);
        scene.stage.wait(Duration::from_secs(1));
        assert_eq!(scene.gone(), [false, false, true, false]);
    }

    /// A waiting client gets its answer in its turn, a source at once. Other clients stay.
    #[test]
    fn who_is_expelled_is_told_so_in_its_own_way() {
        let mut stage = Stage::new(&[API, "--wait=60"]);
        for token in [
            "sessionid=s",
            "sessionid=w",
            "sessionid=k&for=w&direction=out",
        ] {
            add(&mut stage, token);
        }
        let source = publish(&mut stage, "s");
        let waiter = stage.viewer("k");
        let idle = stage.client("");
        assert_eq!(stage.text(waiter), "");
        call(
            &mut stage,
            "DELETE /api/revoke-token?sessionid=k&abort=true",
        );
        stage.assert_status(waiter, 403);
        let relay = &mut stage.relay;
        relay.clients.expel(idle, "for a reason", &mut relay.ctx);
        assert!(relay.ctx.queue.is_empty());
        relay.clients.expel(source, "for a reason", &mut relay.ctx);
        assert!(matches!(
            relay.ctx.queue.front(),
            Some(Event::SourceLost { id, .. }) if *id == source
        ));
        relay.dispatch_events();
        stage.settle();
        stage.assert_status(source, 403);
        assert!(stage.text(source).contains("for a reason"));
        stage.send(idle, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
        stage.assert_status(idle, 200);
        assert_eq!((by(&stage, "s"), by(&stage, "k")), (vec![], vec![]));
    }

    /// The address of a player counts for half a minute and three segments after a request.
    #[cfg(feature = "hls")]
    #[test]
    fn an_address_counts_as_long_as_a_player_may_be_silent() {
        use crate::time::Instant;

        for segment in [2, 6, 10] {
            let segment_time = format!("--hls-segment={segment}");
            let mut stage = Stage::new(&[API, &segment_time]);
            add(&mut stage, "sessionid=a&max-viewers=1");
            let ask = |stage: &mut Stage, host: u8| {
                let peer = ([10, 1, 0, host], 1_000).into();
                let id = stage.relay.accepted(peer, stage.now).expect("room");
                stage.send(id, "GET /stream/a/index.m3u8 HTTP/1.0\r\n\r\n");
                stage.text(id)[9..12].to_owned()
            };
            stage.now = Instant::after_start(Duration::from_secs(7));
            let put = "PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n";
            let source = stage.client(put);
            let frame = [
                &[0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc][..],
                &[0x11; 249],
            ];
            stage.send(source, &frame.concat().repeat(40 * 47));
            assert_eq!(ask(&mut stage, 1), "200");
            let over = stage.now + Duration::from_secs(30 + 3 * segment);
            stage.now = Instant::after_start(over.since_start() - Duration::from_millis(1));
            assert_eq!(ask(&mut stage, 2), "503", "{segment}");
            stage.now = over;
            assert_eq!(ask(&mut stage, 2), "200", "{segment}");
        }
    }
}
