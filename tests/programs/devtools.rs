//! Headless Chromium, driven over its DevTools protocol through two pipes: JSON objects, each ended
//! by a zero byte.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::until;
use super::tools::run;

/// A browser that is ended with the test.
pub struct Browser {
    child: Child,
    folder: PathBuf,
    commands: File,
    answers: BufReader<File>,
    next_id: u64,
    /// Name of the protocol's method.
    page: Value,
}

impl Browser {
    /// A browser that shows `url`.
    pub fn open(name: &str, url: &str) -> Browser {
        let folder =
            std::env::temp_dir().join(format!("tollgate-chromium-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let pipe = |name: &str| {
            let path = folder.join(name);
            let made = run("mkfifo", &[path.to_str().expect("a path in UTF-8")]);
            assert!(made.status.success());
            // Opened for both, so that nobody waits for the other end.
            let file = OpenOptions::new().read(true).write(true).open(&path);
            (path, file.expect("a pipe"))
        };
        let ((commands_path, commands), (answers_path, answers)) =
            (pipe("commands"), pipe("answers"));
        let script = format!(
            "exec chromium --headless=new --no-sandbox --disable-gpu --no-first-run --remote-debugging-pipe --ignore-certificate-errors \
             --autoplay-policy=no-user-gesture-required --user-data-dir={folder}/profile about:blank 3<{} 4>{}",
            commands_path.display(),
            answers_path.display(),
            folder = folder.display(),
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromium starts");
        let mut browser = Browser {
            child,
            folder,
            commands,
            answers: BufReader::new(answers),
            next_id: 1,
            page: Value::Null,
        };
        let target = browser.call("Target.createTarget", json!({ "url": url }));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.page = attached["sessionId"].clone();
        browser
    }

    /// A call of the protocol, and its result.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.ask(method, parameters);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// A call of the protocol, and its answer. Events are passed over.
    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.page.is_null() {
            message["sessionId"] = self.page.clone();
        }
        self.commands
            .write_all(format!("{message}\0").as_bytes())
            .expect("the browser takes it");
        loop {
            let mut answer = Vec::new();
            self.answers
                .read_until(0, &mut answer)
                .expect("the browser answers");
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// Goes to `url`, and says why it did not get there, if it did not.
    pub fn go(&mut self, url: &str) -> Option<String> {
        let result = self.call("Page.navigate", json!({ "url": url }));
        result["errorText"].as_str().map(str::to_owned)
    }

    /// Runs a script in each page that it goes to, before the page's own.
    pub fn prepare(&mut self, script: &str) {
        self.call("Page.enable", json!({}));
        let parameters = json!({ "source": script });
        self.call("Page.addScriptToEvaluateOnNewDocument", parameters);
    }

    /// The user presses the space bar.
    pub fn press_space(&mut self) {
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": " ", "code": "Space", "windowsVirtualKeyCode": 32}),
            );
        }
    }

    /// The user presses a key, which has this code, and may write something.
    pub fn press(&mut self, key: &str, code: u32, text: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}),
            );
        }
    }

    /// The page is so wide, in pixels of CSS, and in light or in dark.
    pub fn look_as(&mut self, width: u32, is_dark: bool) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// All of the page as a PNG, in base64.
    pub fn picture(&mut self) -> String {
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let shot = self.call("Page.captureScreenshot", whole);
        shot["data"].as_str().expect("a picture").to_owned()
    }

    /// What an expression gives in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.try_evaluate(expression).expect("a page is there")
    }

    /// What an expression gives in the page, unless one page is just giving way to another.
    fn try_evaluate(&mut self, expression: &str) -> Option<Value> {
        let answer = self.ask(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        let result = answer.get("result")?;
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        Some(result["result"]["value"].clone())
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub fn await_true(&mut self, expression: &str) {
        until(expression, || {
            (self.try_evaluate(expression)? == true).then_some(())
        });
    }

    /// Returns whether an expression becomes true in the page within `time`.
    pub fn is_true_within(&mut self, time: Duration, expression: &str) -> bool {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self
                .try_evaluate(expression)
                .is_some_and(|value| value == true)
            {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
