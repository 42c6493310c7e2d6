//! `packaging/tollgate.1`: the manual page, in man's macros.

use tollgate::config::{GROUPS, Row};

const BEGINNING: &str = r#".SH NAME
tollgate \- a relay for live streams, with a gate
.SH SYNOPSIS
.B tollgate
.RI [ OPTIONS ]
.SH DESCRIPTION
Takes live streams in over HTTP (PUT, POST), RTMP, RTP and UDP, and sends each of them to many viewers over HTTP, HLS, RTP and UDP.
.PP
With
.BR \-\-token\-server ,
nobody publishes or watches without a token. The hosts of that subnet may call the API, which adds, lists and revokes tokens, and lists
and aborts streams.
.PP
A stream is at
.IR http://HOST:8000/stream/SESSIONID .
A page that plays it is at
.IR /watch/SESSIONID .
The operator's page is at
.IR / .
.SH OPTIONS
SIZE is a number of bytes, or a number with K, M or G (1024, 1024 squared or 1024 cubed bytes). TIME is a number of seconds, or a number with ms, s, m or
h.
"#;

const END: &str = r#".SH ENVIRONMENT
Each option is also a variable, except those that print something and exit: \fB\-\-token\-server\fR is \fBTOLLGATE_TOKEN_SERVER\fR. Commas separate the values of a
repeatable option. A
switch is 1 or 0. An option on the command line wins. An unknown variable that begins with \fBTOLLGATE_\fR is an error.
.PP
Sockets in \fBLISTEN_FDS\fR, with \fBLISTEN_PID\fR, replace \fB\-\-listen\fR and \fB\-\-rtp\fR. The server reports its state to
\fBNOTIFY_SOCKET\fR (see
.BR systemd.socket (5),
.BR sd_notify (3)).
.SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
Admits no new clients, ends the sources, and sends viewers the rest with a clean end, for at most 4 seconds. A second one ends the server at once.
.TP
.B SIGHUP
Reopens the access log.
.SH EXIT STATUS
0 after a signal to end, 1 if the server could not start or continue, 2 for wrong options.
.SH EXAMPLES
Without a gate, anyone may publish and watch:
.PP
.EX
tollgate &
ffmpeg \-nostdin \-re \-i film.mp4 \-c copy \-f mpegts \-method PUT \-send_expect_100 1 http://127.0.0.1:8000/stream/demo &
ffplay http://127.0.0.1:8000/stream/demo
.EE
.PP
With the gate:
.PP
.EX
tollgate \-\-token\-server=127.0.0.1/32 &
curl \-X POST 'http://127.0.0.1:8000/api/add\-token?type=http&sessionid=demo'
.EE
.SH SEE ALSO
.I /usr/share/doc/tollgate
(in the sources
.IR docs ),
.BR ffmpeg (1),
.BR curl (1)
"#;

pub fn page() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        ".\\\" Made of the table of options by tests/readme.\n\
         .TH TOLLGATE 1 \"\" \"tollgate {version}\" \"User Commands\"\n{BEGINNING}"
    );
    for group in GROUPS {
        text += &format!(".SS {}\n", group.title);
        text.extend(group.rows.iter().map(entry));
    }
    text + END
}

fn entry(option: &Row) -> String {
    let usage = option.usage();
    let usage = match usage.split_once('=') {
        Some((name, placeholder)) => {
            format!("\\fB{}\\fR=\\fI{}\\fR", plain(name), plain(placeholder))
        }
        None => format!("\\fB{}\\fR", plain(&usage)),
    };
    let repeatable = if option.is_repeatable() {
        " (repeatable)"
    } else {
        ""
    };
    let default = match option.default_word() {
        "" => String::new(),
        default => format!(" (default: {})", plain(default)),
    };
    let help = words(&capital(option.help));
    let more = match option.more {
        "" => String::new(),
        more => format!("{}\n", words(more)),
    };
    format!(".TP\n{usage}{repeatable}\n{help}{default}.\n{more}")
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// Markdown's code in bold.
fn words(text: &str) -> String {
    let pieces = plain(text);
    let mut out = String::new();
    for (number, piece) in pieces.split('`').enumerate() {
        if number > 0 {
            out += if number % 2 == 1 { "\\fB" } else { "\\fR" };
        }
        out += piece;
    }
    // A line that began so would be a command.
    match out.starts_with(['.', '\'']) {
        true => format!("\\&{out}"),
        false => out,
    }
}

fn plain(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
