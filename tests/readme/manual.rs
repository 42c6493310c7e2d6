//! `packaging/tollgate.1`: the manual page, in man's macros.

use tollgate::config::{Listed, listed};

const BEGINNING: &str = r#".SH NAME
tollgate \- a relay for live streams, with a gate
.SH SYNOPSIS
.B tollgate
.RI [ OPTIONS ]
.SH DESCRIPTION
Media comes in over HTTP (PUT, POST) or RTP\-UDP and goes out, live, to any number of viewers over HTTP, HLS, RTP and UDP.
Started with
.BR \-\-token\-server ,
nobody streams or watches without a token, and the hosts of that subnet may call the API, which adds, lists and revokes tokens, and lists
and aborts streams.
.PP
A stream is at
.IR http://HOST:8000/stream/SESSIONID ,
a page that plays it at
.IR /watch/SESSIONID ,
the operator's page at
.IR / .
.SH OPTIONS
SIZE is a number of bytes, or one with K, M or G (1024, 1024 times that, and again); TIME is in seconds, or one with ms, s, m or h.
"#;

const END: &str = r#".SH ENVIRONMENT
Each option but those that only ask for something is a variable, too: \fB\-\-token\-server\fR is \fBTOLLGATE_TOKEN_SERVER\fR, lists have
commas between, a switch is 1 or 0. An option wins over its variable. A variable that begins so and is none of these is an error.
.PP
\fBLISTEN_FDS\fR and \fBLISTEN_PID\fR pass sockets, in place of \fB\-\-listen\fR and \fB\-\-rtp\fR; \fBNOTIFY_SOCKET\fR is told the state (see
.BR systemd.socket (5),
.BR sd_notify (3)).
.SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
No new clients; sources are ended, viewers get what is buffered and a clean end, for 4 seconds at the most. The second time: at once.
.TP
.B SIGHUP
Opens the access log anew.
.SH EXIT STATUS
0 when it was told to end, 1 when it could not start or go on, 2 for options that are wrong.
.SH EXAMPLES
Anyone may stream and watch:
.PP
.EX
tollgate &
ffmpeg \-nostdin \-re \-i film.mp4 \-c copy \-f mpegts \-method PUT http://127.0.0.1:8000/stream/demo &
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
    let mut heading = "";
    for option in listed() {
        if option.heading != heading {
            heading = option.heading;
            text += &format!(".SS {heading}\n");
        }
        text += &entry(&option);
    }
    text + END
}

fn entry(option: &Listed) -> String {
    let usage = match option.usage.split_once('=') {
        Some((name, placeholder)) => {
            format!("\\fB{}\\fR=\\fI{}\\fR", plain(name), plain(placeholder))
        }
        None => format!("\\fB{}\\fR", plain(&option.usage)),
    };
    let repeatable = if option.is_repeatable {
        " (repeatable)"
    } else {
        ""
    };
    let default = match option.default {
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
