//! Download links: good for one file, until they end, and for nothing else.

use std::time::Duration;

use axum::http::Method;
use stockade_core::store::Store as _;

use crate::front::{Answer, Front, Who};

const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

async fn furnished() -> Front {
    let front = Front::new().await;
    front.put(Who::User, "w", "a.txt", b"content").await;
    front.put(Who::User, "w", "b.txt", b"more").await;
    front.put(Who::User, "v", "a.txt", b"another workspace's").await;
    front.put(Who::Other, "w", "a.txt", b"somebody else's").await;
    front
}

fn token(link: &str) -> &str {
    link.split('/').nth(2).unwrap()
}

async fn open(front: &Front, link: &str) -> Answer {
    front.get(Who::Nobody, link).await
}

/// What each link that is not good gets.
async fn no_link(front: &Front) -> Answer {
    let answer = open(front, "/files/nonsense/a.txt").await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (404, "not_found"));
    answer
}

#[tokio::test]
async fn a_link_opens_its_file_without_a_key() {
    let front = furnished().await;
    let link = front.link(Who::User, "w", "a.txt");
    assert_eq!(open(&front, &link).await.body, b"content");
    // A key, even a wrong one, changes nothing.
    assert_eq!(front.get(Who::Stranger, &link).await.body, b"content");
    let head = front.ask(Who::Nobody, Method::HEAD, &link).send().await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, Some("7")));
    for method in [Method::PUT, Method::POST, Method::DELETE] {
        let answer = front.ask(Who::Nobody, method.clone(), &link).body("x").send().await;
        assert_eq!(answer.status, 405, "{method}");
    }
    assert_eq!(open(&front, &link).await.body, b"content");
}

#[tokio::test]
async fn an_upload_answers_with_a_link_that_works() {
    let front = furnished().await;
    for path in ["plain.txt", "dir/größe%20☃.csv", "odd%25E9%3B%3F%23.txt", "caf%E9"] {
        let uri: String = path.chars().map(encoded).collect();
        let uri = format!("/api/workspaces/w/files/{uri}");
        let made = front.ask(Who::User, Method::POST, &uri).body(path.to_owned()).send().await;
        let url = made.json()["url"].as_str().unwrap().to_owned();
        let link = url.strip_prefix("https://files.example.org").unwrap();
        assert_eq!(open(&front, link).await.text(), path, "{url}");
    }
}

/// A letter as a URI may hold it; those of ASCII are in a good form already.
fn encoded(letter: char) -> String {
    if letter.is_ascii() {
        return letter.to_string();
    }
    let mut bytes = [0; 4];
    letter.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn no_changed_token_opens_anything() {
    let front = furnished().await;
    let link = front.link(Who::User, "w", "a.txt");
    let token = token(&link).as_bytes().to_vec();
    let expected = no_link(&front).await;
    for at in 0..token.len() {
        let value = ALPHABET.iter().position(|letter| *letter == token[at]).unwrap();
        for bit in 0..6 {
            let mut changed = token.clone();
            changed[at] = ALPHABET[value ^ (1 << bit)];
            let changed = String::from_utf8(changed).unwrap();
            let answer = open(&front, &format!("/files/{changed}/a.txt")).await;
            assert!(answer == expected, "bit {bit} of letter {at}: {answer:?}");
        }
    }
    let whole = String::from_utf8(token).unwrap();
    let (half, twice) = (&whole[..whole.len() / 2], format!("{whole}{whole}"));
    let padded =
        [format!("{whole}="), format!("{whole}A"), format!(" {whole}").replace(' ', "%20")];
    for changed in padded.iter().map(String::as_str).chain([half, &twice, "", "%00", "..", "A"]) {
        let answer = open(&front, &format!("/files/{changed}/a.txt")).await;
        assert!(answer == expected, "{changed}: {answer:?}");
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_own_file_only() {
    let front = furnished().await;
    let link = front.link(Who::User, "w", "a.txt");
    let expected = no_link(&front).await;
    for path in ["b.txt", "a.txt/", "A.TXT", "a.tx", "a.txt.", "x/a.txt", "a.txt/b", "absent", "*"]
    {
        let answer = open(&front, &format!("/files/{}/{path}", token(&link))).await;
        let same = path == "a.txt/";
        assert!(same || answer == expected, "{path}: {answer:?}");
    }
    // The bytes that name the workspace, taken from one token and put into another.
    for (who, workspace) in [(Who::User, "v"), (Who::Other, "w")] {
        let other = front.link(who, workspace, "a.txt");
        let (mine, theirs) = (token(&link), token(&other));
        for split in [16, 20, 24, 32, 43, 44, 60] {
            for mixed in [
                format!("{}{}", &mine[..split], &theirs[split..]),
                format!("{}{}", &theirs[..split], &mine[split..]),
            ] {
                let answer = open(&front, &format!("/files/{mixed}/a.txt")).await;
                assert!(answer == expected, "{workspace} split at {split}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_of_another_server_signs_nothing_here() {
    let (front, foreign) = (furnished().await, furnished().await);
    let dir = front.dir(Who::User, "w");
    let url = stockade_mcp::LinkMaker::link(&*foreign.links, &dir, "a.txt").unwrap();
    let link = url.strip_prefix("https://files.example.org").unwrap();
    assert!(open(&front, link).await == no_link(&front).await);
}

#[tokio::test]
async fn an_expired_link_is_no_link() {
    let front = Front::with(|options| options.link_ttl = Duration::from_secs(2)).await;
    front.put(Who::User, "w", "a.txt", b"content").await;
    let link = front.link(Who::User, "w", "a.txt");
    assert_eq!(open(&front, &link).await.body, b"content");
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(open(&front, &link).await, no_link(&front).await);
}

#[tokio::test]
async fn a_revoked_link_ends_at_once_and_alone() {
    let front = furnished().await;
    let (link, twin) = (front.link(Who::User, "w", "a.txt"), front.link(Who::User, "w", "a.txt"));
    assert_ne!(link, twin);
    assert_eq!(open(&front, &link).await.status, 200);
    let uri = format!("/api/links/{}", token(&link));
    let revoke = async |who| front.ask(who, Method::DELETE, &uri).send().await;
    assert_eq!(revoke(Who::User).await.status, 204);
    assert_eq!(open(&front, &link).await, no_link(&front).await);
    assert_eq!(open(&front, &twin).await.status, 200, "the other one is still good");
    assert_eq!(revoke(Who::User).await.status, 204, "again");
}

#[tokio::test]
async fn only_its_owner_and_an_admin_revoke_a_link() {
    let front = furnished().await;
    let link = front.link(Who::User, "w", "a.txt");
    let revoke = async |who, token: &str| {
        front.ask(who, Method::DELETE, &format!("/api/links/{token}")).send().await
    };
    let strange = revoke(Who::Other, token(&link)).await;
    assert_eq!(strange.status, 404);
    assert_eq!(strange, revoke(Who::Other, "nonsense").await, "as if there were none");
    assert_eq!(revoke(Who::ReadOnly, token(&link)).await.status, 403);
    assert_eq!(open(&front, &link).await.status, 200);
    assert_eq!(revoke(Who::Admin, token(&link)).await.status, 204);
    assert_eq!(open(&front, &link).await, no_link(&front).await);
}

/// A link without a good MAC must not revoke the good one of the same nonce.
#[tokio::test]
async fn a_forged_token_revokes_nothing_of_others() {
    let front = furnished().await;
    let (mine, theirs) =
        (front.link(Who::User, "w", "a.txt"), front.link(Who::Other, "w", "a.txt"));
    // Workspace and expiry of the attacker (letters 0 to 31), the nonce of the victim.
    let forged = format!("{}{}", &token(&theirs)[..32], &token(&mine)[32..]);
    let uri = format!("/api/links/{forged}");
    front.ask(Who::Other, Method::DELETE, &uri).send().await;
    assert_eq!(open(&front, &mine).await.status, 200);
}

#[tokio::test]
async fn a_link_ends_with_its_file_and_its_workspace() {
    let front = furnished().await;
    let link = front.link(Who::User, "w", "a.txt");
    let file = front.ask(Who::User, Method::DELETE, "/api/workspaces/w/files/a.txt");
    assert_eq!(file.send().await.status, 204);
    assert_eq!(open(&front, &link).await.status, 404);
    front.put(Who::User, "w", "a.txt", b"new").await;
    assert_eq!(open(&front, &link).await.body, b"new", "a link is good for a path");
    let workspace = front.ask(Who::User, Method::DELETE, "/api/workspaces/w");
    assert_eq!(workspace.send().await.status, 204);
    front.put(Who::User, "w", "a.txt", b"of a later one").await;
    assert_eq!(open(&front, &link).await.status, 404, "a later workspace is another one");
    assert!(front.store.workspace_by_dir("nothing").unwrap().is_none());
}

#[tokio::test]
async fn a_link_with_a_key_outlives_that_key() {
    let front = furnished().await;
    let link = front.link(Who::User, "w", "a.txt");
    front.store.revoke_key(front.key_id(Who::User), 1).unwrap();
    assert_eq!(open(&front, &link).await.status, 200, "it is revoked by itself, or expires");
}
