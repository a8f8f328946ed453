//! `mcp`: the real program, driven over its standard input and output as a client drives it.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::world::{Done, PATIENCE, World};

const READING: [&str; 9] =
    ["clusters", "events", "job", "list_jobs", "logs", "queue", "status", "what_if", "why"];
const WRITING: [&str; 3] = ["retry_job", "stop_job", "submit_job"];

/// A client of the Model Context Protocol.
struct Assistant {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
}

impl Assistant {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (to, from) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let mut client = Self { process, to, from, next: 0 };
        let hello = client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "a test", "version": "1" },
            }),
        );
        assert_eq!(hello["result"]["serverInfo"]["name"], "ray-multicluster", "{hello}");
        assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
        assert!(hello["result"]["instructions"].as_str().unwrap().contains("`status`"));
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The answer. Every line of the output must be one of the protocol.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the program has ended");
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(answer["jsonrpc"], "2.0", "{line}");
            if answer["id"] == id {
                return answer;
            }
        }
    }

    fn tools(&mut self) -> Vec<Value> {
        let listed = self.ask("tools/list", &json!({}));
        listed["result"]["tools"].as_array().unwrap().clone()
    }

    fn names(&mut self) -> Vec<String> {
        let tools = self.tools();
        let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }

    /// Succeeds, and returns the text and the data.
    #[track_caller]
    fn ok(&mut self, tool: &str, arguments: &Value) -> (String, Value) {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result:#}");
        assert!(result["structuredContent"].is_object(), "{result:#}");
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["structuredContent"].clone())
    }

    /// Fails, and returns the text.
    #[track_caller]
    fn fails(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result:#}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Repeats the call until the answer is as expected.
    #[track_caller]
    fn until(&mut self, tool: &str, arguments: &Value, is_so: impl Fn(&str, &Value) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (text, data) = self.ok(tool, arguments);
            if is_so(&text, &data) {
                return text;
            }
            assert!(Instant::now() < deadline, "{tool} stays {text} {data:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The client closes its end.
    fn close(mut self) -> (bool, String) {
        drop(self.to.take());
        let deadline = Instant::now() + PATIENCE;
        while self.process.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it goes on without a client");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut rest = String::new();
        for line in BufReader::new(self.process.stderr.take().unwrap()).lines() {
            rest += &line.unwrap();
        }
        (self.process.wait().unwrap().success(), rest)
    }
}

impl Drop for Assistant {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn an_assistant_sees_a_dozen_tools_and_what_each_may_do() {
    let world = World::new();
    let mut client = Assistant::start(&mut world.command(&["mcp"]));
    let mut all = [READING.as_slice(), &WRITING].concat();
    all.sort_unstable();
    assert_eq!(client.names(), all);
    for tool in client.tools() {
        let name = tool["name"].as_str().unwrap();
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], READING.contains(&name), "{name}");
        assert_eq!(hints["destructiveHint"], name == "stop_job", "{name}");
        assert_eq!(hints["idempotentHint"], !["submit_job", "retry_job"].contains(&name), "{name}");
        let schema = &tool["inputSchema"];
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&"object".into(), &false.into()),
            "{name}"
        );
        for (argument, about) in schema["properties"].as_object().unwrap() {
            assert!(about["description"].is_string(), "{name} {argument}: {about}");
        }
    }
    // Only what reads: by a flag, or because the token may do nothing else.
    let mut reader = Assistant::start(&mut world.command(&["mcp", "--read-only"]));
    assert_eq!(reader.names(), READING);
    let refused = reader.ask("tools/call", &json!({ "name": "stop_job", "arguments": { "id": "x" } }));
    assert!(refused["error"]["message"].as_str().unwrap().contains("unknown tool \"stop_job\""), "{refused}");
    let made = world.json(&["token", "create", "--owner", "ann", "--role", "read", "--state-dir", "state"]);
    let token = made["token"].as_str().unwrap();
    let with_token = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.env("RAY_MULTICLUSTER_TOKEN", token);
        command
    };
    let deadline = Instant::now() + PATIENCE;
    while Done::of(&mut world.command(&["status"])).code == Some(0) {
        assert!(Instant::now() < deadline, "tokens are not required");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut reader = Assistant::start(&mut with_token(&["mcp"]));
    assert_eq!(reader.names(), READING);
    assert!(reader.ok("status", &json!({})).0.contains("2 of 3 clusters available"));
    // Without a token, the error says what to do.
    let told = client.fails("status", &json!({}));
    assert!(told.contains("hint: ") && told.contains("token"), "{told}");
}

#[test]
fn an_assistant_submits_asks_why_reads_the_log_and_stops_only_when_confirmed() {
    let world = World::new();
    let mut client = Assistant::start(&mut world.command(&["mcp"]));
    let (text, data) = client.ok("status", &json!({}));
    assert!(text.starts_with("2 of 3 clusters available") && text.contains("\ncentos: "), "{text}");
    assert_eq!(data["clusters"][1]["name"], "mac");
    let (text, _) = client.ok("clusters", &json!({ "name": "lab" }));
    assert!(text.starts_with("lab: unhealthy") && text.contains("127.0.0.1:1"), "{text}");
    assert_eq!(client.ok("clusters", &json!({})).1["items"].as_array().unwrap().len(), 3);

    let job = json!({ "id": "talks", "entrypoint": "lines 3", "cluster": "centos", "tags": ["nightly"] });
    let mut with_folders = job.clone();
    with_folders["runtime_env"] = json!({ "py_modules": ["lib"], "working_dir": "." });
    for job in [&job, &with_folders] {
        assert!(client.ok("what_if", job).0.starts_with("it would go to centos now\n"));
    }
    assert!(client.ok("submit_job", &job).0.starts_with("submitted talks"));
    assert!(client.ok("submit_job", &job).0.contains("it is the same job"));
    client.until("job", &json!({ "id": "talks" }), |_, job| job["state"] == "succeeded");
    assert!(client.fails("stop_job", &json!({ "id": "talks" })).ends_with("the job has ended already"));
    let log = client.until("logs", &json!({ "id": "talks", "lines": 2 }), |text, _| text.contains("line 3"));
    assert_eq!(log, "line 2\nline 3");
    let (text, why) = client.ok("why", &json!({ "id": "talks" }));
    assert!(text.contains("attempt 1 went to centos"), "{text}");
    assert_eq!(why["decisions"][0]["cluster"], "centos");
    assert!(client.ok("events", &json!({ "job": "talks" })).0.contains("succeeded on centos"));
    assert!(!client.ok("events", &json!({ "limit": 3 })).1["items"].as_array().unwrap().is_empty());

    let waits =
        json!({ "id": "waits", "entrypoint": "x", "cluster": "lab", "required": true, "needs": "cpu=2" });
    client.ok("submit_job", &waits);
    assert!(client.ok("why", &json!({ "id": "waits" })).0.contains("lab"));
    assert!(client.ok("queue", &json!({})).0.contains("waits"));
    let (text, found) = client.ok("list_jobs", &json!({ "states": ["queued"], "limit": 5 }));
    assert_eq!((text.lines().count(), &found["items"][0]["id"]), (1, &"waits".into()));

    for arguments in [json!({ "id": "waits" }), json!({ "id": "waits", "confirm": "yes" })] {
        let told = client.fails("stop_job", &arguments);
        assert!(told.starts_with("nothing was stopped. waits: queued"), "{told}");
        assert!(told.contains("call stop_job again with confirm: \"waits\""), "{told}");
    }
    assert_eq!(client.ok("job", &json!({ "id": "waits" })).1["state"], "queued");
    client.ok("stop_job", &json!({ "id": "waits", "confirm": "waits" }));
    client.until("job", &json!({ "id": "waits" }), |_, job| job["state"] == "stopped");
    assert!(client.ok("retry_job", &json!({ "id": "waits" })).0.contains("waits is queued again"));
    assert_eq!(client.close(), (true, String::new()));
}

#[test]
fn bad_calls_are_answered_and_the_program_goes_on_until_its_client_leaves() {
    let world = World::new();
    let mut client = Assistant::start(&mut world.command(&["mcp"]));
    for (tool, arguments, expected) in [
        ("job", json!({}), "missing field `id`"),
        ("job", json!({ "id": 7 }), "invalid type: integer `7`"),
        ("job", json!({ "id": "none" }), "none"),
        ("job", json!({ "id": "a/../b" }), "hint: "),
        ("status", json!({ "verbose": true }), "unknown field `verbose`"),
        ("logs", json!({ "id": "none", "lines": 100_000 }), "give a number from 1 to 1000"),
        ("submit_job", json!({ "entrypoint": "x", "needs": "much" }), "hint: "),
        ("submit_job", json!({ "entrypoint": "x", "required": true }), "no cluster is given"),
        ("submit_job", json!({ "entrypoint": "x", "cluster": "moc" }), "there are centos, lab, mac"),
        ("submit_job", json!({ "entrypoint": "x", "working_dir": "not/there" }), "working_dir not/there"),
        ("stop_job", json!({ "id": "none", "confirm": "none" }), "none"),
        ("retry_job", json!({ "id": "none" }), "none"),
        ("submit_job", json!({ "entrypoint": "x".repeat(4 << 20) }), "hint: "),
    ] {
        let told = client.fails(tool, &arguments);
        assert!(told.contains(expected), "{tool}: {told}");
    }
    // Longer than any message may be, and no message at all: skipped.
    writeln!(client.to.as_mut().unwrap(), "{}", "x".repeat(20 << 20)).unwrap();
    client.send(&json!(["nonsense"]));
    let unknown = client.ask("tools/call", &json!({ "name": "rm", "arguments": {} }));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("there are status, "), "{unknown}");
    assert!(client.ok("status", &json!({})).0.contains("clusters available"));
    assert!(client.close().0);

    // A control plane that is not there: the tools say so. It may be back at the next call.
    let mut client = Assistant::start(world.command(&["mcp", "--address", "127.0.0.1:1"]).env_remove("HOME"));
    let told = client.fails("status", &json!({}));
    assert!(told.contains("cannot reach a control plane at http://127.0.0.1:1"), "{told}");
    assert!(client.close().0);
    let silent = Done::of(&mut world.command(&["mcp"]));
    assert_eq!((silent.code, silent.out.as_str(), silent.err.as_str()), (Some(0), "", ""));
}
