//! Headless Firefox, driven over Marionette: each message is a length in decimal, a colon and an
//! array of JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::support::until;

/// A browser that is ended with the test.
pub struct Firefox {
    child: Child,
    folder: PathBuf,
    connection: BufReader<TcpStream>,
    next_id: u64,
}

/// Marionette takes a port that is free, and writes it into the profile.
const PREFERENCES: &str = "user_pref('marionette.port', 0);\n\
    user_pref('datareporting.policy.dataSubmissionEnabled', false);\n\
    user_pref('browser.shell.checkDefaultBrowser', false);\n\
    user_pref('app.update.enabled', false);\n";

impl Firefox {
    /// A browser that shows nothing.
    pub fn open(name: &str) -> Firefox {
        let folder =
            std::env::temp_dir().join(format!("tollgate-firefox-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("user.js"), PREFERENCES).expect("a profile");
        let child = Command::new("firefox-esr")
            .args(["--headless", "--no-remote", "--marionette", "--profile"])
            .arg(&folder)
            .env("HOME", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("firefox-esr starts");
        let connection = until("Firefox listens", || {
            let port = std::fs::read_to_string(folder.join("MarionetteActivePort")).ok()?;
            TcpStream::connect(("127.0.0.1", port.trim().parse().ok()?)).ok()
        });
        let mut firefox = Firefox {
            child,
            folder,
            connection: BufReader::new(connection),
            next_id: 1,
        };
        // It introduces itself.
        firefox.message();
        firefox.call("WebDriver:NewSession", json!({}));
        firefox
    }

    /// Goes to `url`, and waits until it is loaded.
    pub fn go(&mut self, url: &str) {
        self.call("WebDriver:Navigate", json!({ "url": url }));
    }

    fn message(&mut self) -> Value {
        let mut length = Vec::new();
        self.connection
            .read_until(b':', &mut length)
            .expect("Firefox answers");
        length.pop();
        let length = String::from_utf8(length).expect("digits");
        let mut message = vec![0; length.parse().expect("a length")];
        self.connection
            .read_exact(&mut message)
            .expect("as much as it says");
        serde_json::from_slice(&message).expect("JSON")
    }

    /// A call, and its result.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!([0, id, method, parameters]).to_string();
        write!(self.connection.get_mut(), "{}:{message}", message.len()).expect("Firefox takes it");
        loop {
            let answer = self.message();
            if answer[1] == id {
                assert!(answer[2].is_null(), "{method}: {answer}");
                return answer[3]["value"].clone();
            }
        }
    }

    /// What an expression gives in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let script = format!("return ({expression})");
        // In the page's own world, where its script is.
        let parameters = json!({"script": script, "args": [], "sandbox": null});
        self.call("WebDriver:ExecuteScript", parameters)
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
