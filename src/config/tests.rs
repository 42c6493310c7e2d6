//! Options as users give them: valid ones, wrong ones, and the errors.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use super::options::options;
use super::row::Fallback;
use super::*;
use crate::gate::Subnet;
use crate::relay::Level;

fn read(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Command, String> {
    let environment = environment
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    parse(arguments, environment)
}

fn run(arguments: &[&str]) -> Config {
    match read(arguments, &[]) {
        Ok(Command::Run(config)) => config,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

fn run_with(arguments: &[&str], environment: &[(&str, &str)]) -> Config {
    match read(arguments, environment) {
        Ok(Command::Run(config)) => config,
        other => panic!("{arguments:?}, {environment:?}: {other:?}"),
    }
}

/// Returns the error for one argument.
fn said(argument: &str) -> String {
    read(&[argument], &[]).expect_err(argument).to_string()
}

#[test]
fn an_empty_command_line_has_the_defaults() {
    let config = run(&[]);
    assert_eq!(config, Config::default());
    let bind = |port: u16| Bind {
        address: format!("[::]:{port}").parse().expect("an address"),
        without_ipv6: Some(format!("0.0.0.0:{port}").parse().expect("an address")),
    };
    assert_eq!(config.listen, [Listen::Tcp(bind(8000))]);
    assert_eq!(config.rtp, Some(bind(5004)));
    assert_eq!(config.connections_max, None);
    assert_eq!(config.core.limits.http.head_bytes_max, 16 << 10);
    assert_eq!(config.core.limits.source_idle_time, Duration::from_secs(15));
    assert_eq!(config.core.limits.stream.buffer_bytes, 8 << 20);
    assert_eq!(config.core.limits.buffers_bytes_max, 1 << 30);
    assert_eq!(config.core.limits.log.level, Level::Info);
    let without_limits = Settings {
        serves_hls: cfg!(feature = "hls"),
        remuxes: cfg!(feature = "remux"),
        limits: config.core.limits,
        ..Settings::default()
    };
    assert_eq!(config.core, without_limits);
    assert_eq!((config.token_file, config.access_log), (None, None));
    assert_eq!(config.cors, []);
}

#[test]
fn a_value_stands_behind_an_equals_sign_or_next() {
    let joined = run(&[
        "--token-server=10.0.0.0/8",
        "--rtp=off",
        "--takeover",
        "--join-back-time=2",
    ]);
    let apart = run(&[
        "--token-server",
        "10.0.0.0/8",
        "--rtp",
        "off",
        "--takeover",
        "--join-back-time",
        "2",
    ]);
    assert_eq!(joined, apart);
    assert_eq!(joined.rtp, None);
    assert!(joined.core.takes_over);
}

#[test]
fn repeated_options_add_up() {
    let config = run(&[
        "--listen=127.0.0.1:0",
        "--listen",
        "[::1]:80",
        "--listen=unix:/run/t",
    ]);
    let tcp = |text: &str| {
        Listen::Tcp(Bind {
            address: text.parse().expect("an address"),
            without_ipv6: None,
        })
    };
    let expected = [
        tcp("127.0.0.1:0"),
        tcp("[::1]:80"),
        Listen::Unix("/run/t".into()),
    ];
    assert_eq!(config.listen, expected);
    let config = run(&["--token-server=::1", "--token-server=10.0.0.0/255.0.0.0"]);
    let subnets: Vec<String> = config
        .core
        .token_servers
        .iter()
        .map(Subnet::to_string)
        .collect();
    assert_eq!(subnets, ["::1/128", "10.0.0.0/8"]);
    for twice in [
        ["--rtp=off", "--rtp=off"],
        ["--takeover", "--takeover"],
        ["--check", "--check"],
    ] {
        let said = read(&twice, &[]).expect_err("given twice").to_string();
        assert!(
            said.ends_with(": it is given twice; give it once"),
            "{said}"
        );
    }
}

#[test]
fn help_version_and_check_are_other_commands() {
    assert_eq!(read(&["--help"], &[]), Ok(Command::Help));
    assert_eq!(
        read(&["--rtp=off", "--version", "--junk"], &[]),
        Ok(Command::Version)
    );
    let expected = run(&["--rtp=off"]);
    assert_eq!(
        read(&["--check", "--rtp=off"], &[]),
        Ok(Command::Check(expected))
    );
    assert!(read(&["--check", "--rtp=junk"], &[]).is_err());
    assert!(read(&["--junk", "--help"], &[]).is_err());
}

#[test]
fn an_option_wins_over_its_variable() {
    let environment = [
        ("TOLLGATE_TOKEN_SERVER", "10.0.0.0/8, ::1"),
        ("TOLLGATE_RTP", "off"),
        ("TOLLGATE_CLOSE_DELIMITED", "1"),
        ("TOLLGATE_TAKEOVER", "false"),
        ("HOME", "/"),
    ];
    let config = run_with(&["--token-server=127.0.0.1"], &environment);
    assert_eq!(
        config.core.token_servers,
        run(&["--token-server=127.0.0.1"]).core.token_servers
    );
    assert_eq!(config.rtp, None);
    assert!(config.core.is_close_delimited && !config.core.takes_over);
    let config = run_with(&[], &environment);
    let both = run(&["--token-server=10.0.0.0/8", "--token-server=::1"]);
    assert_eq!(config.core.token_servers, both.core.token_servers);
    // A variable is not parsed if its option is given.
    assert_eq!(
        run_with(&["--rtp=off"], &[("TOLLGATE_RTP", "junk")]).rtp,
        None
    );
}

#[test]
fn variables_are_as_strict_as_options() {
    let cases = [
        (
            "TOLLGATE_BUFFER",
            "8X",
            "TOLLGATE_BUFFER: '8X' is wrong; give a size from 64K to 64G",
        ),
        (
            "TOLLGATE_TOKEN_SERVER",
            "",
            "TOLLGATE_TOKEN_SERVER: '' is not a subnet",
        ),
        (
            "TOLLGATE_TOKEN_SERVER",
            "::1,",
            "TOLLGATE_TOKEN_SERVER: '' is not a subnet",
        ),
        (
            "TOLLGATE_RTP",
            "",
            "TOLLGATE_RTP: it is empty; give ADDR:PORT",
        ),
        (
            "TOLLGATE_TAKEOVER",
            "yes",
            "TOLLGATE_TAKEOVER: 'yes' is wrong; give 1 or 0",
        ),
    ];
    for (name, value, beginning) in cases {
        let said = read(&[], &[(name, value)]).expect_err(name).to_string();
        assert!(said.starts_with(beginning), "{said}");
    }
}

#[test]
fn a_variable_of_no_option_is_refused() {
    let cases = [
        ("TOLLGATE_TOKENSERVER", "TOLLGATE_TOKEN_SERVER was probably"),
        (
            "TOLLGATE_token_server",
            "TOLLGATE_TOKEN_SERVER was probably",
        ),
        ("TOLLGATE_LISTENS", "TOLLGATE_LISTEN was probably"),
        ("TOLLGATE_HELP", "see --help"),
        ("TOLLGATE_", "see --help"),
        ("TOLLGATE_UNHEARD_OF", "see --help"),
    ];
    for (name, says) in cases {
        for options in [&[][..], &["--check"]] {
            let environment = [("TOLLGATE_RTP", "off"), (name, "x"), ("LISTEN_FDS", "1")];
            let said = read(options, &environment).expect_err(name).to_string();
            assert!(said.contains(name) && said.contains(says), "{said}");
        }
    }
    // The order of variables does not matter.
    for names in [["TOLLGATE_A", "TOLLGATE_B"], ["TOLLGATE_B", "TOLLGATE_A"]] {
        let said = read(&[], &names.map(|name| (name, ""))).expect_err("two");
        assert!(said.to_string().contains("'TOLLGATE_A'"), "{said}");
    }
    // `--help` reports no errors, and variables of other programs are ignored.
    let environment = [("TOLLGATE_TOKENSERVER", "x")];
    assert_eq!(read(&["--help"], &environment), Ok(Command::Help));
    run_with(
        &[],
        &[("TOLLGATES_RTP", "x"), ("tollgate_rtp", "x"), ("OTHER", "")],
    );
}

#[test]
fn a_mistyped_option_names_the_nearest() {
    let cases = [
        ("--token-servre=::1", "token-server"),
        ("--tokenserver=::1", "token-server"),
        ("--listn", "listen"),
        ("--port=8000", "listen"),
        ("--BUFFER", "buffer"),
        ("--head_bytes=1", "head-bytes"),
        ("--conn", "connections"),
        ("--log-level=debug", "log"),
        ("--connections-per-hots=1", "connections-per-host"),
        ("--verison", "version"),
    ];
    for (argument, nearest) in cases {
        let said = said(argument);
        assert!(
            said.ends_with(&format!("; --{nearest} was probably meant")),
            "{said}"
        );
    }
    assert_eq!(
        said("--elephant"),
        "there is no option 'elephant'; see --help"
    );
    let short = said("-x");
    assert_eq!(short, "there is no option 'x' with one dash; see --help");
    assert_eq!(read(&["-h"], &[]), Ok(Command::Help));
    assert_eq!(read(&["-V"], &[]), Ok(Command::Version));
}

/// With the feature its rows exist; without it the error names the feature.
#[test]
fn an_option_of_a_missing_feature_names_the_feature() {
    for feature in FEATURES {
        for option in feature.options {
            let is_option = options().any(|row| row.name == *option);
            assert_eq!(is_option, feature.is_in, "{option}");
            if is_option {
                continue;
            }
            let why = format!(
                "this program is built without `{}`; build one with it",
                feature.name
            );
            assert_eq!(said(&format!("--{option}=1")), format!("--{option}: {why}"));
            let variable = super::arguments::variable(option);
            let said = read(&[], &[(&variable, "1")]).expect_err("left out");
            assert_eq!(said.to_string(), format!("{variable}: {why}"));
        }
    }
}

#[test]
fn unknown_options_are_refused() {
    assert_eq!(
        said("x\ny"),
        "'x\\u{a}y' is not an option; options begin with two dashes, see --help"
    );
    assert_eq!(
        said("--takeover=1"),
        "--takeover: it takes no value, and '1' is one; give --takeover alone"
    );
    assert_eq!(
        said("--help=rtp"),
        "--help: it takes no value, and 'rtp' is one; give --help alone"
    );
    assert_eq!(
        said("--rtp"),
        "--rtp: it has no value; give --rtp=ADDR:PORT"
    );
    let said = read(&["--hostname", "--check"], &[])
        .expect_err("no value")
        .to_string();
    assert_eq!(said, "--hostname: it has no value; give --hostname=NAME");
    assert!(read(&["--", "--help"], &[]).is_err());
    let bytes = OsString::from_vec(b"--hostname=\xff".to_vec());
    let said = parse([bytes], []).expect_err("not UTF-8").to_string();
    assert_eq!(said, "--hostname: '\\xff' is not UTF-8; give UTF-8");
}

#[test]
fn an_error_about_a_value_shows_the_right_form() {
    let cases = [
        (
            "--listen=8000",
            "'8000' is wrong; give ADDR:PORT, such as 127.0.0.1:8000",
        ),
        (
            "--listen=localhost:80",
            "'localhost:80' is wrong; give ADDR:PORT",
        ),
        ("--listen=unix:", "'unix:' is wrong; give ADDR:PORT"),
        ("--listen=::1:80", "'::1:80' is wrong; give ADDR:PORT"),
        (
            "--rtp=on",
            "'on' is wrong; give ADDR:PORT, such as 127.0.0.1:5004 or [::]:5004, or off",
        ),
        (
            "--token-server=10.1.1.1/8",
            "'10.1.1.1/8' has bits set beyond its mask; 10.0.0.0/8 was",
        ),
        ("--publish-from=x", "'x' is not a subnet; give ADDR/MASK"),
        (
            "--rtp-to=10.0.0.0/33",
            "'10.0.0.0/33' has a bad mask; give a prefix length from 0 to 32",
        ),
        (
            "--join=10.0.0.1",
            "'10.0.0.1' is wrong; give GROUP[@SOURCE][%INTERFACE], such as 239.1.2.3",
        ),
        (
            "--multicast=0",
            "'0' is wrong; give a TTL from 1 to 255, or TTL%INTERFACE",
        ),
        ("--multicast=1%", "'1%' is wrong; give a TTL from 1 to 255"),
        ("--dscp=64", "'64' is wrong; give a number from 0 to 63"),
        (
            "--hostname=a..b",
            "'a..b': empty label in the name; give labels",
        ),
        (
            "--hostname=10.0.0.1",
            "'10.0.0.1' is not a name; give one such as relay.example",
        ),
        (
            "--public-url=live.example",
            "'live.example' is wrong; give https://NAME or",
        ),
        (
            "--public-url=https://",
            "'https://' is wrong; give https://NAME or",
        ),
        (
            "--public-url=https://a/\"</script>",
            "'https://a/\"</script>' is wrong; give https://NAME or",
        ),
        (
            "--public-url=https://a/?b",
            "'https://a/?b' is wrong; give https://NAME or",
        ),
        (
            "--connections=0",
            "'0' is wrong; give a number from 1 to 10000000",
        ),
        ("--connections=+5", "'+5' is wrong; give a number from 1"),
        (
            "--connections=99999999999999999999",
            "'99999999999999999999' is wrong",
        ),
        (
            "--udp-clients=65537",
            "'65537' is wrong; give a number from 1 to 65536",
        ),
        (
            "--buffer=1K",
            "'1K' is wrong; give a size from 64K to 64G, in bytes or with K, M or G",
        ),
        ("--buffer=K", "'K' is wrong"),
        ("--buffer=1.5M", "'1.5M' is wrong"),
        ("--buffer=17179869184G", "'17179869184G' is wrong"),
        (
            "--head-time=0",
            "'0' is wrong; give 0.01 to 3600 seconds, such as 30, 0.5, 2.5s, 2m",
        ),
        (
            "--head-time=61m",
            "'61m' is wrong; give 0.01 to 3600 seconds",
        ),
        (
            "--join-back-time=-1",
            "'-1' is wrong; give 0 to 3600 seconds",
        ),
        ("--join-back-time=1.", "'1.' is wrong"),
        ("--join-back-time=.5", "'.5' is wrong"),
        ("--join-back-time=1e3", "'1e3' is wrong"),
        ("--join-back-time=0.0000000001", "'0.0000000001' is wrong"),
        (
            "--join-back-time=99999999999999999999h",
            "'99999999999999999999h' is wrong",
        ),
        (
            "--log=trace",
            "'trace' is wrong; give error, warn, info or debug",
        ),
        (
            "--cors=example.org",
            "'example.org' is wrong; give * or an origin",
        ),
        (
            "--cors=https://example.org/",
            "'https://example.org/' is wrong",
        ),
        (
            "--cors=https://Example.org",
            "'https://Example.org' is wrong",
        ),
    ];
    for (argument, beginning) in cases {
        let (name, _) = argument.split_once('=').expect("an option with a value");
        let said = said(argument);
        assert!(said.starts_with(&format!("{name}: {beginning}")), "{said}");
    }
}

/// 0.5 s is below the range.
#[cfg(feature = "hls")]
#[test]
fn examples_of_times_are_in_their_range() {
    assert!(
        said("--hls-segment=500ms")
            .starts_with("--hls-segment: '500ms' is wrong; give 1 to 60 seconds, such as 30, 2.5s")
    );
}

#[test]
fn sizes_and_times_have_units() {
    let buffer = |text: &str| run(&["--buffer", text]).core.limits.stream.buffer_bytes;
    assert_eq!(buffer("65536"), 1 << 16);
    assert_eq!((buffer("64K"), buffer("64k")), (1 << 16, 1 << 16));
    assert_eq!((buffer("3M"), buffer("1G")), (3 << 20, 1 << 30));
    let wait = |text: &str| {
        run(&["--join-back-time", text])
            .core
            .limits
            .stream
            .join_back_time
    };
    assert_eq!(
        (wait("30"), wait("30s")),
        (Duration::from_secs(30), Duration::from_secs(30))
    );
    assert_eq!(
        (wait("0.5"), wait("500ms")),
        (Duration::from_millis(500), wait("0.5s"))
    );
    assert_eq!(
        (wait("1.5m"), wait("1h")),
        (Duration::from_secs(90), Duration::from_secs(3600))
    );
    assert_eq!(wait("0.000000001"), Duration::from_nanos(1));
}

#[test]
fn other_values_are_read() {
    let config = run(&[
        "--hostname=Gate.example",
        "--connections=7",
        "--body-rate=0",
        "--log=warn",
        "--cors=*",
        "--cors=http://localhost:3000",
        "--rtp=127.0.0.1:0",
    ]);
    assert_eq!(config.core.hostnames[0], "Gate.example");
    for url in ["https://example.org/live", "https://example.org/live/"] {
        let config = run(&[&format!("--public-url={url}")]);
        assert_eq!(config.core.public_url, "https://example.org/live/");
    }
    assert_eq!(config.connections_max, Some(7));
    assert_eq!(config.core.limits.body_bytes_per_second_min, 0);
    assert_eq!(config.core.limits.log.level, Level::Warn);
    let site = CorsOrigin::Site("http://localhost:3000".to_owned());
    assert_eq!(config.cors, [CorsOrigin::Any, site]);
    assert_eq!(config.rtp.and_then(|bind| bind.without_ipv6), None);
}

#[test]
fn an_origin_is_a_host_a_port_and_perhaps_a_path() {
    let read = |text: &str| {
        let config = run(&[&format!("--origin={text}"), "--origin=http://second:1"]);
        let origins = config.core.origins;
        assert_eq!(origins.len(), 2);
        (origins[0].to_string(), origins[0].address())
    };
    let address = |text: &str| text.parse().ok();
    for (text, meant, place) in [
        (
            "http://origin.example:8000",
            "http://origin.example:8000",
            None,
        ),
        ("http://origin:80/a/b/", "http://origin:80/a/b", None),
        (
            "http://10.0.0.1:8000/",
            "http://10.0.0.1:8000",
            address("10.0.0.1:8000"),
        ),
        (
            "http://[::1]:8000",
            "http://[::1]:8000",
            address("[::1]:8000"),
        ),
    ] {
        assert_eq!(read(text), (meant.to_owned(), place), "{text}");
    }
    for text in [
        "",
        "origin:8000",
        "https://origin:8000",
        "http://origin",
        "http://origin/a:8000",
        "http://user@origin:8000",
        "http://origin:0",
        "http://origin:70000",
        "http://:8000",
        "http://origin:8000?x",
        "http://origin:8000/?x",
        "http://origin:8000/#x",
        "http://origin:8000/a b",
        "http://origin:8000/ü",
        "http://origin:8000/a\r\nX: y",
    ] {
        let said = said(&format!("--origin={text}"));
        assert!(said.contains("give http://HOST:PORT"), "{text}: {said}");
    }
}

#[test]
fn contradicting_options_are_refused() {
    assert_eq!(
        said("--origin-tokens"),
        "--origin-tokens has no meaning without --origin; give both"
    );
    assert_eq!(
        said("--join=239.1.2.3"),
        "--join has no meaning without --token-server; give both"
    );
    assert!(
        read(
            &["--join=239.1.2.3", "--token-server=::1", "--rtp=off"],
            &[]
        )
        .is_err()
    );
    assert_eq!(
        said("--buffer=2G"),
        "--buffer: 2147483648 is above --buffers, 1073741824; give at most that, or raise --buffers"
    );
    assert!(read(&["--buffer=2G", "--buffers=2G"], &[]).is_ok());
    assert!(
        said("--join-back-bytes=9M").starts_with("--join-back-bytes: 9437184 is above --buffer")
    );
}

#[test]
fn help_fits_a_screen_and_has_every_option() {
    let help = help();
    assert!(help.lines().count() <= 68, "{} lines", help.lines().count());
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for row in options() {
        // Two columns for the mark, and at least one space in front of the text.
        assert!(row.usage().len() <= 25, "{}", row.usage());
        assert!(help.contains(&format!(" {} ", row.usage())), "{}", row.name);
        assert!(
            !row.more.contains('|') && !row.more.contains('\n'),
            "{}",
            row.name
        );
    }
}

#[test]
fn names_are_distinct_and_plain() {
    let names: BTreeSet<&str> = options().map(|row| row.name).collect();
    assert_eq!(names.len(), options().count());
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    assert!(names.iter().all(|name| name.bytes().all(plain)));
}

/// A default that is shown as a value can be given, and means the same.
#[test]
fn shown_defaults_can_be_given() {
    for row in options() {
        let Fallback::Value(text) = row.fallback else {
            continue;
        };
        assert_eq!(
            run(&[&format!("--{}={text}", row.name)]),
            Config::default(),
            "{}",
            row.name
        );
    }
}
