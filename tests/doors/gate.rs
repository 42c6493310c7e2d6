//! What the gate and the command line read from outside.

use tollgate::config;
use tollgate::gate::{Subnet, udp_clients};

/// A list that parses prints back, and what is printed parses to the same.
pub fn udp_clients(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match udp_clients::parse(text, 64) {
        Ok(clients) => {
            assert!(!clients.is_empty() && clients.len() <= 64);
            let printed: Vec<String> = clients.iter().map(ToString::to_string).collect();
            assert_eq!(
                udp_clients::parse(&printed.join(","), 64).as_ref(),
                Ok(&clients)
            );
        }
        Err(error) => assert_one_line(&error.to_string()),
    }
}

/// A subnet that parses prints back to the same, and contains its own address.
pub fn subnet(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match text.parse::<Subnet>() {
        Ok(subnet) => assert_eq!(subnet.to_string().parse::<Subnet>().as_ref(), Ok(&subnet)),
        Err(error) => assert_one_line(&error.to_string()),
    }
}

/// Whatever the arguments, there is a configuration or one line that says what is wrong.
pub fn options(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Err(error) = config::parse(text.lines().map(String::from), []) {
        assert_one_line(&error.to_string());
    }
}

fn assert_one_line(message: &str) {
    assert!(!message.is_empty());
    assert!(!message.chars().any(char::is_control), "{message:?}");
}
