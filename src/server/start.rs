//! The start: opens everything that the options name, and runs the loop.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token, Waker};

use super::bound::Bound;
use super::clock::since_1970;
use super::disk::{Disk, TokenFile};
use super::handover::{Handover, Predecessor};
use super::log::{AccessLog, Console};
use super::names::LookUps;
use super::process_usage::ProcessUsage;
use super::sandbox::{LoopNeeds, Sandbox, ThreadRole};
use super::signals::{SignalAction, Signals};
use super::systemd::{Inherited, Manager};
use super::tcp::{Listener, Sockets};
use super::udp::{Udp, is_own_address};
use super::{
    Accepting, LISTENERS_FROM, Protocol, READ_BUFFER_BYTES, SIGNALS, Server, THREADS, UDP, sys,
};
use crate::config::{Bind, Config, Listen};
use crate::gate::{HostName, InterfaceName, Tokens};
use crate::relay::{CONNECTIONS_BEYOND_MAX, Readers, Relay, Settings, UdpPort};
use crate::time::UnixTime;

/// File descriptors that are not for clients: standard streams, poll, listeners, signals, files.
const FILES_KEPT: usize = 32;

/// Runs the server until a signal ends it. The error says in one line why it did not start.
pub fn run(config: &Config) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot start the event loop: {error}");
    let sandbox = Sandbox::new(config.sandbox).map_err(failed)?;
    let files_max = sys::process::raise_file_limit()
        .map_err(|error| format!("cannot read the limit on open files: {error}"))?;
    let poll = Poll::new().map_err(failed)?;
    let waker = Waker::new(poll.registry(), THREADS).map_err(failed)?;
    // All threads use it, and a hanging one may outlive the loop.
    let waker: &'static Waker = Box::leak(Box::new(waker));
    let settings = settings(config, files_max)?;
    let (handover, mut predecessor) = Handover::start(config, &settings, poll.registry())?;
    // While this server waits for another one, signals end it as any program.
    let signals = Signals::take().map_err(failed)?;
    let (relay, began) = match &mut predecessor {
        Some(predecessor) => predecessor.relay()?,
        None => (Relay::new(settings), Instant::now()),
    };
    let mut server = Server {
        poll,
        relay,
        began,
        listeners: Vec::new(),
        accept_again: None,
        cannot_accept: false,
        sockets: Sockets::default(),
        readers: Readers::default(),
        read_buffer: vec![0; READ_BUFFER_BYTES],
        signals,
        disk: None,
        look_ups: None,
        udp: None,
        console: Console::start(config.logs_json, sandbox).map_err(failed)?,
        access_log: start_access_log(config, waker, sandbox)?,
        process_usage: ProcessUsage::new(),
        manager: Manager::connect(),
        ends_at: None,
        handover,
    };
    server
        .poll
        .registry()
        .register(
            &mut SourceFd(&server.signals.descriptor()),
            SIGNALS,
            Interest::READABLE,
        )
        .map_err(failed)?;
    let has_predecessor = predecessor.is_some();
    let begun = server.open(config, predecessor, (waker, sandbox));
    match begun.and_then(|predecessor| server.enter(config, sandbox, predecessor)) {
        // The files of the sockets still belong to the other server.
        Err(error) if has_predecessor => {
            std::mem::forget(server);
            return Err(error);
        }
        begun => begun?,
    }
    server.relay.counts().files.max = files_max;
    server.manager.notify("READY=1");
    server
        .run()
        .map_err(|error| format!("the event loop failed: {error}"))
}

/// Returns why the token file cannot be at its path, if that is known before the start.
pub fn token_file_fault(config: &Config) -> Option<String> {
    let file = config.token_file.as_ref()?;
    if file.is_dir() {
        let shown = file.display();
        return Some(format!(
            "'{shown}' is a folder; give a file, such as {shown}/tokens"
        ));
    }
    let folder = file.parent()?;
    let is_missing = !folder.as_os_str().is_empty() && !folder.is_dir();
    is_missing.then(|| {
        let shown = folder.display();
        format!("there is no folder {shown}; make it, or give another path")
    })
}

fn settings(config: &Config, files_max: u64) -> Result<Settings, String> {
    let started = since_1970();
    let kept = FILES_KEPT + CONNECTIONS_BEYOND_MAX;
    let room = usize::try_from(files_max)
        .unwrap_or(usize::MAX)
        .saturating_sub(kept);
    if room == 0 {
        let detail = format!(
            "the limit on open files is {files_max}; at least {} are needed",
            kept + 1
        );
        return Err(detail);
    }
    // The only random source of std: the keys of its hash tables, 128 bits from the kernel. Each
    // hash gives half of our key.
    let draw = || u128::from(RandomState::new().hash_one(started));
    let random_key = draw() << 64 | draw();
    let mut settings = config.settings(room, started.as_secs(), random_key);
    settings.hostnames.extend(own_name());
    Ok(settings)
}

/// Returns the host name of this machine, if it is valid.
fn own_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim_ascii();
    HostName::parse(name)
        .ok()
        .map(|name| name.as_str().to_owned())
}

/// Returns the number of open file descriptors, before the first client. Leaves out the one for
/// this look.
fn open_files() -> u64 {
    let folder = "/proc/self/fd";
    // Newer kernels count them in the metadata. Listing them would stall all clients that are taken
    // over.
    let length = fs::metadata(folder).map_or(0, |folder| folder.len());
    match length {
        0 => fs::read_dir(folder)
            .map_or(0, Iterator::count)
            .saturating_sub(1) as u64,
        length => length,
    }
}

fn start_access_log(
    config: &Config,
    waker: &'static Waker,
    sandbox: Sandbox,
) -> Result<Option<AccessLog>, String> {
    let Some(place) = &config.access_log else {
        return Ok(None);
    };
    AccessLog::start(place, waker, sandbox)
        .map(Some)
        .map_err(|error| format!("cannot write the access log to {place}: {error}"))
}

impl Server {
    /// Opens, binds and starts what the options name, or receives it from another server. Returns
    /// that server, which still serves its clients.
    fn open(
        &mut self,
        config: &Config,
        mut predecessor: Option<Predecessor>,
        (waker, sandbox): (&'static Waker, Sandbox),
    ) -> Result<Option<Predecessor>, String> {
        let failed = |error: io::Error| format!("cannot start a thread: {error}");
        let is_gated = !config.core.token_servers.is_empty();
        let mut origins = config.core.origins.iter();
        if is_gated || origins.any(|origin| origin.address().is_none()) {
            self.look_ups = Some(LookUps::start(waker, sandbox).map_err(failed)?);
        }
        let tokens = self.open_disk(config, predecessor.as_mut(), (waker, sandbox))?;
        if !is_gated {
            self.console.write_line(
                "level=warn event=open detail=\"without --token-server anyone may publish and watch\"",
            );
        }
        let mut inherited = Inherited::take()
            .map_err(|error| format!("cannot use what systemd passed: {error}"))?;
        // An operator who closed the port to other hosts would not see that it is open.
        if !inherited.listeners.is_empty() && config.listen != Config::default().listen {
            self.console.write_line(
                "level=warn event=listen-ignored detail=\"the service manager passed sockets, which count instead of --listen; disable its socket unit to use --listen\"",
            );
        }
        let mut bound = predecessor
            .as_mut()
            .map_or_else(Bound::default, Predecessor::bound);
        if inherited.listeners.is_empty() {
            inherited.listeners = bound.passed();
        }
        inherited.rtp = inherited.rtp.or_else(|| bound.passed_rtp());
        self.listen(&config.listen, inherited.listeners, &mut bound)?;
        if let Some(bind) = &config.rtmp {
            let listener = bind_tcp(bind, "rtmp", &mut bound)?;
            self.accept_from(Listener::tcp(listener), Protocol::Rtmp)?;
        }
        if let (Some(bind), true) = (&config.rtp, is_gated) {
            self.receive_rtp(config, bind, inherited.rtp, &mut bound)?;
        } else {
            self.relay.remove_udp_clients();
        }
        if let Some(predecessor) = &mut predecessor {
            let goes_on = self
                .handover
                .go_on(config, bound.handover(), self.poll.registry());
            goes_on.map_err(|error| format!("cannot wait for a successor: {error}"))?;
            self.sockets = predecessor.sockets();
        }
        if let Some(tokens) = tokens {
            self.relay.restore(tokens, self.now());
        }
        Ok(predecessor)
    }

    /// Gives up all rights that the loop does not need. Then takes over from the other server: nothing
    /// can fail after it has left.
    fn enter(
        &mut self,
        config: &Config,
        sandbox: Sandbox,
        predecessor: Option<Predecessor>,
    ) -> Result<(), String> {
        let connections = self.sockets.len();
        self.relay.counts().files.own = open_files().saturating_sub(connections as u64);
        if let Some(line) = sandbox.report() {
            self.console.write_line(&line);
        }
        let entered = sandbox.enter(&ThreadRole::Loop(LoopNeeds::of(config)));
        entered.map_err(|error| error.to_string())?;
        if let Some(predecessor) = predecessor {
            // The other server would leave, and this one would end.
            if let Some(SignalAction::End) = self.signals.next() {
                return Err("a signal came before this server took over".to_owned());
            }
            predecessor.taken()?;
            self.console.write_line(&format!(
                "level=info event=taken-over connections={connections}"
            ));
        }
        // Until here the RTP socket was the other server's, too.
        if let Some(udp) = &self.udp
            && let Err(error) = udp.set_outgoing(&config.outgoing)
        {
            self.console.write_line(&format!(
                "level=warn event=outgoing-options-not-set detail=\"{error}: datagrams go out with the socket's own DSCP, TTL and interface\""
            ));
        }
        Ok(())
    }

    /// Opens the token file, if the options name one, and starts its thread. Returns the table that
    /// was read. A predecessor has passed on its table already.
    fn open_disk(
        &mut self,
        config: &Config,
        predecessor: Option<&mut Predecessor>,
        (waker, sandbox): (&'static Waker, Sandbox),
    ) -> Result<Option<Tokens>, String> {
        let (file, tokens) = if let Some(file) = predecessor.and_then(Predecessor::token_file) {
            (file, None)
        } else if let Some(path) = &config.token_file {
            let now = UnixTime {
                unix_seconds: since_1970().as_secs(),
            };
            let opened = TokenFile::open(path, self.relay.token_limits(), now)?;
            let (file, tokens, torn_bytes) = opened;
            if torn_bytes > 0 {
                self.console.write_line(&format!(
                    "level=warn event=token-file-torn dropped_bytes={torn_bytes} detail=\"a crash damaged the last change; no call had confirmed it\""
                ));
            }
            (file, Some(tokens))
        } else {
            return Ok(None);
        };
        let disk = Disk::start(file, (waker, sandbox));
        self.disk = Some(disk.map_err(|error| format!("cannot start the disk's thread: {error}"))?);
        Ok(tokens)
    }

    /// Listens on inherited sockets, or else on the addresses of the options.
    fn listen(
        &mut self,
        places: &[Listen],
        inherited: Vec<TcpListener>,
        bound: &mut Bound,
    ) -> Result<(), String> {
        if inherited.is_empty() {
            for place in places {
                let listener = match place {
                    Listen::Tcp(bind) => Listener::tcp(bind_tcp(bind, "listen", bound)?),
                    Listen::Unix(path) => match bound.unix(path) {
                        Some(listener) => Listener::unix_again(listener, path),
                        None => Listener::unix(path),
                    }
                    .map_err(|error| io::Error::other(format!("'{}': {error}", path.display()))),
                };
                self.accept_from(listener, Protocol::Http)?;
            }
        }
        for listener in inherited {
            self.accept_from(Listener::tcp(listener), Protocol::HttpPassed)?;
        }
        Ok(())
    }

    fn accept_from(
        &mut self,
        listener: io::Result<Listener>,
        protocol: Protocol,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot listen: {error}");
        let token = Token(LISTENERS_FROM + self.listeners.len());
        // If this fails, the file of a socket that another server uses stays with the others.
        self.listeners.push(Accepting {
            listener: listener.map_err(failed)?,
            protocol,
            is_ready: true,
        });
        let Some(Accepting { listener, .. }) = self.listeners.last_mut() else {
            return Ok(());
        };
        listener
            .register(token, self.poll.registry())
            .map_err(failed)?;
        match protocol {
            Protocol::Http | Protocol::HttpPassed => {
                self.console
                    .write_line(&format!("listening http {listener}"));
                self.relay.add_listener(listener.address().map_err(failed)?);
            }
            Protocol::Rtmp => self
                .console
                .write_line(&format!("listening rtmp {listener}")),
        }
        Ok(())
    }

    fn receive_rtp(
        &mut self,
        config: &Config,
        bind: &Bind,
        inherited: Option<UdpSocket>,
        passed: &mut Bound,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot wait for RTP: {error}");
        let is_passed = inherited.is_some();
        let socket = match inherited.or_else(|| passed.rtp(bind)) {
            Some(socket) => socket,
            None => bind_udp(bind)?,
        };
        let rtcp = passed.rtcp(&socket);
        let mut udp = Udp::new(socket, rtcp).map_err(failed)?;
        udp.is_passed = is_passed;
        let interface = config.outgoing.interface.as_ref();
        udp.choose_interface(interface).map_err(|error| {
            let interface = interface.map_or("any", InterfaceName::as_str);
            format!("cannot send to groups by the interface {interface}: {error}")
        })?;
        let bound = udp.bound().map_err(failed)?;
        for (index, join) in config.core.joins.iter().enumerate() {
            let port = UdpPort::Group(index);
            match passed.group(join, bound) {
                Some(socket) => udp.join_again(join, port, socket),
                None => udp
                    .join(join, port)
                    .map_err(|error| format!("cannot join {join}: {error}"))?,
            }
        }
        let registry = self.poll.registry();
        for socket in udp.sockets() {
            registry
                .register(socket, UDP, Interest::READABLE)
                .map_err(failed)?;
        }
        if udp.has_rtcp() {
            self.relay.set_has_rtcp();
        }
        self.relay.set_own_addresses(is_own_address);
        self.relay.set_rtp(bound);
        self.udp = Some(udp);
        self.console.write_line(&format!("listening rtp {bound}"));
        Ok(())
    }
}

/// Takes the listener that another server bound, or binds one.
fn bind_tcp(bind: &Bind, option: &str, bound: &mut Bound) -> Result<TcpListener, String> {
    bound
        .tcp(bind)
        .map_or_else(|| first_that_binds(bind, TcpListener::bind), Ok)
        .map_err(|(address, error)| cannot("listen on", address, &error, option))
}

fn bind_udp(bind: &Bind) -> Result<UdpSocket, String> {
    first_that_binds(bind, UdpSocket::bind)
        .map_err(|(address, error)| cannot("bind the RTP socket to", address, &error, "rtp"))
}

/// Returns the error for an address that cannot be bound, with advice if another program has it.
fn cannot(what: &str, address: SocketAddr, error: &io::Error, option: &str) -> String {
    let instead = match error.kind() {
        io::ErrorKind::AddrInUse if cfg!(feature = "handover") => format!(
            "; another program uses it: give --{option}=ADDR:PORT with a free port, or give both the same --{option} and --handover"
        ),
        io::ErrorKind::AddrInUse => {
            format!("; another program uses it: give --{option}=ADDR:PORT with a free port")
        }
        _ => String::new(),
    };
    format!("cannot {what} {address}: {error}{instead}")
}

/// Binds the address, or the one for machines without IPv6.
fn first_that_binds<S>(
    bind: &Bind,
    open: impl Fn(SocketAddr) -> io::Result<S>,
) -> Result<S, (SocketAddr, io::Error)> {
    match (open(bind.address), bind.without_ipv6) {
        (Err(error), Some(instead)) if is_without_ipv6(&error) => {
            open(instead).map_err(|error| (instead, error))
        }
        (bound, _) => bound.map_err(|error| (bind.address, error)),
    }
}

fn is_without_ipv6(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}
