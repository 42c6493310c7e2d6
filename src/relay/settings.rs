//! Settings of the core, and the limits of each part. The options of `config` are written into a
//! default whose limits are all 0.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

use super::LogLimits;
use crate::gate::{Host, Join, Subnet};
use crate::{gate, http, stream};

/// Settings of the core.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Subnets that may call the API. If empty, tokens are off.
    pub token_servers: Vec<Subnet>,
    /// Proxies whose connections begin with a PROXY protocol header.
    pub proxies: Vec<Subnet>,
    /// Proxies that name the client in a field of each request.
    pub forwarders: Vec<Subnet>,
    /// Names under which clients may call the API, besides addresses and `localhost`.
    pub hostnames: Vec<String>,
    /// The address in links and playlists, with a slash at its end. Empty: the one by which the
    /// client reached the server.
    pub public_url: String,
    /// Addresses at which the server listens for HTTP. A socket in the file system counts as
    /// 127.0.0.1:80.
    pub listeners: Vec<SocketAddr>,
    /// Subnets of sources. If empty, a source may have any address.
    pub publish_from: Vec<Subnet>,
    /// Subnets that may read `/metrics`, besides the API's hosts. They also count if tokens are
    /// off.
    pub metrics_from: Vec<Subnet>,
    /// Subnets of UDP clients. If empty, a UDP client may have any address that is no multicast
    /// group.
    pub rtp_to: Vec<Subnet>,
    /// Multicast groups that the server joins.
    pub joins: Vec<Join>,
    /// Sites whose pages may watch: the origin (or `*`), and the response fields for it.
    pub cors: Vec<(String, Fields)>,
    /// Viewers' bodies end with the connection.
    pub is_close_delimited: bool,
    /// Sources may use the protocol of Icecast.
    pub admits_icecast: bool,
    /// Streams are served as HLS, too.
    pub serves_hls: bool,
    /// Streams are served in other containers, too.
    pub remuxes: bool,
    /// Requests are logged.
    pub has_access_log: bool,
    /// Whether the server takes sources over RTMP.
    pub takes_rtmp: bool,
    /// A second source replaces the first.
    pub takes_over: bool,
    /// Relays from which the server fetches streams that do not run here.
    pub origins: Vec<OriginUrl>,
    /// Relays whose lists this server includes in its own.
    pub peers: Vec<Peer>,
    /// The origins decide who may watch their streams.
    pub asks_origin: bool,
    /// The limits.
    pub limits: Limits,
    /// Key of the random numbers: names, nonces, source identifiers, first sequence numbers.
    pub random_key: u128,
    /// Seconds since 1970 at [`Instant::START`].
    pub started_unix_seconds: u64,
}

impl Settings {
    /// Returns whether the server may send datagrams to this address. A multicast group must be in
    /// `--rtp-to`, so that no network is flooded by accident. `--join` does not allow a group here.
    pub(super) fn may_receive(&self, address: IpAddr) -> bool {
        let is_in = self.rtp_to.iter().any(|subnet| subnet.contains(address));
        is_in || (self.rtp_to.is_empty() && !address.is_multicast())
    }

    /// Returns whether a token may name this address, as a UDP client or as a joined group.
    pub(super) fn may_be_named(&self, address: SocketAddr) -> bool {
        let address = address.ip().to_canonical();
        let mut joins = self.joins.iter();
        self.may_receive(address) || joins.any(|join| join.group == address)
    }
}

/// Limits of the core. Each part below the core has limits of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Maximal number of connections. A few more are accepted to be refused, or to call the API.
    pub connections_max: usize,
    /// Maximal number of connections from one address.
    pub connections_per_host_max: usize,
    /// Maximal number of streams.
    pub streams_max: usize,
    /// Maximal size of the buffers of all streams together, in bytes. Streams keep the blocks that
    /// they were granted beyond it.
    pub buffers_bytes_max: usize,
    /// Time for a request's head to arrive, or for the payload of an API call.
    pub head_time: Duration,
    /// Time after which an idle connection is closed.
    pub keep_alive_time: Duration,
    /// Time after which a silent source is lost.
    pub source_idle_time: Duration,
    /// Minimal rate of a source in bytes per second, averaged over `source_idle_time`.
    pub body_bytes_per_second_min: u64,
    /// Time for which a viewer waits for a session that does not run yet.
    pub wait_time: Duration,
    /// Time for an origin to answer, from the look-up of its name on.
    pub origin_time: Duration,
    /// Time after which a pull without viewers ends.
    pub origin_idle_time: Duration,
    /// Time for which a held stream waits for another source.
    pub hold_time: Duration,
    /// Maximal time for which small pieces wait to be written together.
    pub bundle_time: Duration,
    /// Minimal duration of an HLS segment.
    pub hls_segment_time: Duration,
    /// Time after which a client that takes none of its bytes is disconnected.
    pub viewer_stall_time: Duration,
    /// Limits of request heads.
    pub http: http::Limits,
    /// Limits of each stream.
    pub stream: stream::Limits,
    /// Limits of the token table.
    pub tokens: gate::Limits,
    /// Limits of the log.
    pub log: LogLimits,
}

/// Fields of response heads that are made once, at the start.
pub type Fields = &'static [(&'static str, &'static str)];

/// Field of answers that differ by the site of the page.
pub const VARIES: Fields = &[("Vary", "Origin")];

/// Another relay, from which streams are fetched: `http://HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    /// An address, or a name that is yet to be looked up.
    pub host: Host,
    /// 1 to 65535.
    pub port: NonZeroU16,
    /// Path in front of `/stream/…`: empty, or with a slash at its beginning and none at its end.
    pub path: String,
}

impl OriginUrl {
    /// Returns its address. `None`: its name must be looked up.
    pub fn address(&self) -> Option<SocketAddr> {
        self.host.socket_address(self.port)
    }
}

impl Display for OriginUrl {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Another relay whose lists this server includes in its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Its URL.
    pub url: OriginUrl,
}

impl Peer {
    /// Creates a peer. `None`: its host is a name, which would need a look-up.
    pub fn new(url: &OriginUrl) -> Option<Peer> {
        Some(Peer {
            address: url.address()?,
            url: url.clone(),
        })
    }
}
