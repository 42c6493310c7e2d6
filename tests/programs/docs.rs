//! Pastes the commands of the README and of each page of `docs` into a shell, page by page.
//!
//! Each page has a network, a folder, processes and a terminal of its own. So `127.0.0.1:8000` is
//! free, and a program that reads the terminal takes the following commands or is stopped. A block
//! of `sh` has commands. A block of `console` has commands with their output. Each command must
//! succeed. If its comment begins with a status, the answer has that status. A page ends each program
//! that it starts. A person pastes more slowly than this test, so the test waits for background
//! programs, except for a source that the server waits for (`--wait`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::tools::{folder, run};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Precedes a block that the test does not run, and gives the reason.
const NOT_RUN: &str = "<!-- not run here: ";
/// The longest time for a page, in seconds.
const TIME_MAX: &str = "300";

/// Pastes a file into a shell at a terminal of its own. Programs in the shell read the same
/// terminal.
const PASTE: &str = r#"
import os, pty, sys, threading
shell, terminal = pty.fork()
if shell == 0:
    os.execvp("sh", ["sh", "-c", "stty -echo; exec bash -s >printed 2>errors"])
def look():
    while os.read(terminal, 4096): pass
threading.Thread(target=look, daemon=True).start()
with open(sys.argv[1], "rb") as script, open(terminal, "wb") as typed:
    typed.write(script.read())
    typed.flush()
    os.waitpid(shell, 0)
"#;

/// Precedes a page's commands.
const SHELL: &str = r#"
set -m
ip link set lo up
# A reader waits for the server to listen.
curl() {
  local status
  for _ in $(seq 300); do
    command curl -sS "$@"
    status=$?
    [ $status = 7 ] || return $status
    sleep 0.2
  done
  return $status
}
answers() {
  for _ in $(seq 600); do
    case $(command curl -s -o /dev/null -w '%{http_code}' -I "$1") in 000 | 404) sleep 0.1 ;; *) return 0 ;; esac
  done
}
arrives() {
  for _ in $(seq 600); do
    if [ -s "$1" ]; then return 0; else sleep 0.1; fi
  done
}
"#;

/// Waits for the players, since a reader ends the server only after seeing the picture.
const WAIT_FOR_PLAYERS: &str =
    "for player in $(jobs -l | awk '/ffplay|vlc/ { print $2 }'); do wait $player; done\n";

/// Reports programs that the page has not ended. A source ends by itself when its server has ended.
const PROGRAMS_LEFT: &str = "for _ in $(seq 50); do [ -z \"$(jobs -r)\" ] && break; sleep 0.2; done; echo; jobs -r | sed 's/^/@@ left: /'\n";

/// Replaces programs that show pictures. It succeeds if a second of the stream can be decoded.
const PLAYER: &str = r#"#!/bin/bash
case $1 in http*) for _ in $(seq 600); do curl -sfI -o /dev/null "$1" && break; sleep 0.1; done ;; esac
timeout 60 ffmpeg -nostdin -v error -i "$1" -t 1 -f null - && echo "$1" >>played
"#;

/// One command of a page.
struct Step {
    command: String,
    /// The text below it, which its output has to match.
    prints: Option<String>,
}

impl Step {
    /// Returns the status that its comment begins with.
    fn refusal(&self) -> Option<&str> {
        let (_, comment) = self.command.split_once(" # ")?;
        let status = comment.trim().get(..3)?;
        status.parse::<u16>().is_ok().then_some(status)
    }

    /// Returns the command without its comment.
    fn bare(&self) -> &str {
        let bare = self.command.split_once(" # ").map(|(bare, _)| bare);
        bare.unwrap_or(&self.command).trim_end()
    }

    fn is_background(&self) -> bool {
        self.bare().ends_with('&')
    }

    /// Returns the address that a player plays.
    fn plays(&self) -> Option<&str> {
        let mut words = self.bare().split_whitespace();
        let is_player = matches!(words.next(), Some("ffplay" | "vlc"));
        is_player.then(|| words.next().expect("what it plays").trim_matches('\''))
    }

    /// Returns the address that has to answer before the next command.
    fn answers(&self) -> Option<String> {
        let words = || self.bare().split_whitespace();
        if !self.is_background() {
            None
        } else if self.bare().starts_with("tollgate") {
            let listen = words().find_map(|word| word.strip_prefix("--listen="));
            let address = listen.unwrap_or("127.0.0.1:8000");
            Some(format!("http://{address}/healthz"))
        } else if words().any(|word| matches!(word, "-T" | "PUT")) {
            words()
                .find(|word| word.contains("/stream/"))
                .map(str::to_owned)
        } else {
            None
        }
    }
}

/// Returns the commands of a page.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut last_words = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let language = line.strip_prefix("```");
        let block: Vec<&str> = match language {
            Some(_) => lines.by_ref().take_while(|line| *line != "```").collect(),
            None => Vec::new(),
        };
        let is_run = !last_words.starts_with(NOT_RUN);
        match language {
            Some("sh") if is_run => {
                let commands = block.join("\n").replace("\\\n", " ");
                steps.extend(commands.lines().map(|line| Step {
                    command: line.to_owned(),
                    prints: None,
                }));
            }
            Some("console") if is_run => {
                for line in block {
                    if let Some(command) = line.strip_prefix("$ ") {
                        steps.push(Step {
                            command: command.to_owned(),
                            prints: Some(String::new()),
                        });
                    } else if let Some(prints) =
                        steps.last_mut().and_then(|step| step.prints.as_mut())
                    {
                        prints.push_str(line.trim());
                    }
                }
            }
            _ => {}
        }
        if !line.is_empty() {
            last_words = line;
        }
    }
    steps.retain(|step| !step.bare().is_empty());
    steps
}

/// Returns the shell's input: the commands, with lines between them that print each command's number
/// and status.
fn script(steps: &[Step]) -> String {
    let mut script = SHELL.to_owned();
    let mut servers = steps.iter().map(Step::bare);
    let is_awaited = |url: &str| url.contains("/stream/");
    let server_waits = servers.any(|bare| bare.starts_with("tollgate") && bare.contains("--wait="));
    for (number, step) in steps.iter().enumerate() {
        // Its late output must not mix with the output of later commands.
        let command = match step.bare().strip_suffix('&') {
            Some(bare) if !bare.contains('>') => format!("{bare} >>background &"),
            _ => step.command.clone(),
        };
        let bare = step.bare().trim_end_matches([' ', '&']);
        let written = bare.rsplit_once("> ").map(|(_, file)| file);
        if let Some(file) = written {
            script += &format!("rm -f {file}\n");
        }
        if bare.starts_with("kill %tollgate") {
            script += WAIT_FOR_PLAYERS;
        }
        script += &format!("echo; echo '@@ {number}'\n{command}\n");
        script += "echo; echo \"@@ ended $?\"\n";
        let answers = step.answers();
        if let Some(url) = answers.filter(|url| !(server_waits && is_awaited(url))) {
            script += &format!("answers {url}\n");
        }
        match written {
            Some(file) if step.is_background() => {
                script += &format!("arrives {file}\n");
            }
            Some(file) => {
                let is_long = format!("[ $(stat -c %s {file}) -ge 100000 ]");
                script += &format!("{is_long} || echo '@@ short {number}'\n");
            }
            None => {}
        }
    }
    script + WAIT_FOR_PLAYERS + PROGRAMS_LEFT + "exit\n"
}

/// Returns the keys of JSON at all levels, and any other text whole.
fn shape(text: &str) -> Value {
    fn keys(value: Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .into_iter()
                .map(|(key, value)| (key, keys(value)))
                .collect(),
            Value::Array(values) => values.into_iter().map(keys).collect(),
            _ => Value::Null,
        }
    }
    match serde_json::from_str(text) {
        Ok(value) => keys(value),
        Err(_) => Value::String(text.trim().to_owned()),
    }
}

/// Returns the mistake in the output or in the exit status of a command.
fn fault(step: &Step, printed: &str) -> Option<&'static str> {
    let (printed, status) = printed
        .split_once("\n@@ ended ")
        .unwrap_or((printed, "none"));
    let status = status.lines().next().unwrap_or_default();
    let problem = printed
        .split_once("\"status\":")
        .map(|(_, code)| &code[..3]);
    if step.is_background() {
        return None;
    }
    if status != "0" {
        return Some("it failed");
    }
    if problem != step.refusal() {
        return Some("it has another status");
    }
    let prints = step.prints.as_deref().unwrap_or_default();
    let is_other = !prints.is_empty() && shape(prints) != shape(printed);
    is_other.then_some("it prints something else")
}

/// Returns a folder with the programs that the page names, and the examples.
fn place(page: &Path) -> PathBuf {
    let name = page.file_stem().expect("a name").to_string_lossy();
    let place = folder(&format!("docs-{name}"));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(place.join("bin")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_tollgate"), place.join("bin/tollgate")).expect("a link");
    symlink(Path::new(ROOT).join("examples"), place.join("examples")).expect("a link");
    for name in ["ffplay", "vlc"] {
        let path = place.join("bin").join(name);
        fs::write(&path, PLAYER).expect("a file");
        assert!(
            run("chmod", &["+x", path.to_str().expect("UTF-8")])
                .status
                .success()
        );
    }
    place
}

#[track_caller]
fn follow(page: &str) {
    let page = Path::new(ROOT).join(page);
    let steps = steps(&fs::read_to_string(&page).expect("a page"));
    assert!(!steps.is_empty(), "{} has no commands", page.display());
    let place = place(&page);
    fs::write(place.join("script"), script(&steps)).expect("a file");
    fs::write(place.join("paste"), PASTE).expect("a file");
    let enter = format!(
        "cd '{}' && PATH=$PWD/bin:$PATH exec timeout -s KILL {TIME_MAX} unshare --user --map-root-user --net --pid --fork \
         --kill-child --mount-proc python3 paste script",
        place.display()
    );
    run("sh", &["-c", &enter]);
    let written = |file| {
        String::from_utf8_lossy(&fs::read(place.join(file)).unwrap_or_default()).into_owned()
    };
    let text = written("printed");
    let played = written("played");
    let mut wrong = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let begin = format!("\n@@ {number}\n");
        let printed = text.split_once(&begin).map(|(_, rest)| rest);
        let fault = match printed {
            None => Some("it was not come to"),
            Some(_) if text.contains(&format!("@@ short {number}\n")) => {
                Some("it wrote too little")
            }
            Some(printed) => {
                let end = format!("\n@@ {}\n", number + 1);
                let printed = printed
                    .split_once(&end)
                    .map_or(printed, |(printed, _)| printed);
                fault(step, printed)
            }
        };
        let unplayed = step
            .plays()
            .filter(|url| !played.lines().any(|line| line == *url));
        let fault = fault.or(unplayed.map(|_| "it was not played"));
        wrong.extend(fault.map(|fault| format!("{fault}: {}", step.command)));
    }
    let left = text.lines().filter(|line| line.starts_with("@@ left"));
    wrong.extend(left.map(str::to_owned));
    let errors = written("errors");
    let page = page.display();
    assert!(wrong.is_empty(), "{page}: {wrong:#?}\n{text}\n{errors}");
}

macro_rules! pages {
    ($($test:ident $page:literal),* $(,)?) => {
        /// The pages that have commands.
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            #[ignore = "needs curl, ffmpeg, iproute2, Python, Prometheus and namespaces"]
            fn $test() {
                follow($page);
            }
        )*
    };
}

pages! {
    the_commands_of_the_readme_work "README.md",
    the_commands_of_api_work "docs/api.md",
    the_commands_of_refusals_work "docs/refusals.md",
    the_commands_of_edges_work "docs/edges.md",
    the_commands_of_from_icecast_work "docs/from-icecast.md",
    the_commands_of_from_nginx_rtmp_work "docs/from-nginx-rtmp.md",
    the_commands_of_from_udpxy_work "docs/from-udpxy.md",
    the_commands_of_handover_work "docs/handover.md",
    the_commands_of_hls_work "docs/hls.md",
    the_commands_of_hold_work "docs/hold.md",
    the_commands_of_multicast_work "docs/multicast.md",
    the_commands_of_obs_work "docs/obs.md",
    the_commands_of_operating_work "docs/operating.md",
    the_commands_of_remuxing_work "docs/remuxing.md",
    the_commands_of_rtp_work "docs/rtp.md",
    the_commands_of_tokens_work "docs/tokens.md",
}

#[test]
fn every_page_with_commands_is_followed() {
    let docs = fs::read_dir(Path::new(ROOT).join("docs")).expect("docs");
    let names = docs.map(|page| page.expect("an entry").file_name());
    let names = names.map(|name| format!("docs/{}", name.to_string_lossy()));
    for name in names.filter(|name| name.ends_with(".md")) {
        let text = fs::read_to_string(Path::new(ROOT).join(&name)).expect("a page");
        let steps = steps(&text);
        // A person's curl does not wait for the server, as the one of `SHELL` does.
        for pair in steps.windows(2) {
            let [server, next] = [&pair[0], &pair[1]].map(Step::bare);
            let is_early = server.starts_with("tollgate") && next.starts_with("curl");
            assert!(!is_early, "{name}: the server may not listen yet: {next}");
        }
        let has_commands = !steps.is_empty();
        assert_eq!(has_commands, PAGES.contains(&name.as_str()), "{name}");
    }
}
