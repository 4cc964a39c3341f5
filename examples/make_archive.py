"""Makes a small web archive (WARC, gzip by record) of generated HTML pages, for a first try and for tests.

usage: python3 examples/make_archive.py FILE.warc.gz [PAGES]      default 300 pages
"""
import gzip
import hashlib
import random
import sys

SUBJECTS = ["The build daemon", "A maintainer", "The archive", "Every package", "The installer", "A mirror"]
VERBS = ["checks", "installs", "verifies", "uploads", "rebuilds", "removes", "configures", "describes"]
OBJECTS = ["the source tree", "a signed release", "its dependencies", "the control file", "an old version",
           "the documentation", "a new user account", "the kernel image", "each configuration file"]
ENDINGS = ["before the next release", "when the tests pass", "on every architecture", "without any network",
           "as the policy asks", "in the background", "after a short pause", "for the stable suite"]


def sentence(rng):
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(ENDINGS)}."


def page(rng, number):
    paragraphs = "".join(
        "<p>" + " ".join(sentence(rng) for _ in range(rng.randint(2, 6))) + "</p>\n" for _ in range(rng.randint(4, 12)))
    return (f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Page {number}</title>"
            f"<style>p {{ margin: 0 }}</style></head><body><h1>Chapter {number}</h1>\n{paragraphs}</body></html>")


def record_id(url, kind):
    return hashlib.sha1(f"{kind} {url}".encode()).hexdigest()[:32]


def record(url, kind, body, extra=""):
    head = (f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{record_id(url, kind)}>\r\n"
            f"WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Target-URI: {url}\r\n{extra}"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    return gzip.compress(head + body + b"\r\n\r\n", mtime=0)


def response(url, body, status="200 OK", mime="text/html"):
    http = f"HTTP/1.1 {status}\r\nContent-Type: {mime}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    return record(url, "response", http, "Content-Type: application/http; msgtype=response\r\n")


def write_archive(path, num_pages, seed=1):
    """num_pages good pages, each with its request record, then one 404 and one image."""
    rng = random.Random(seed)
    with open(path, "wb") as out:
        for number in range(num_pages):
            url = f"http://pages.example/{number}.html"
            request = f"GET /{number}.html HTTP/1.1\r\nHost: pages.example\r\n\r\n".encode()
            out.write(record(url, "request", request, "Content-Type: application/http; msgtype=request\r\n"))
            out.write(response(url, page(rng, number).encode()))
        out.write(response("http://pages.example/missing.html", b"<p>not here</p>", "404 Not Found"))
        out.write(response("http://pages.example/logo.png", b"\x89PNG\r\n", mime="image/png"))
    return 2 * num_pages + 2


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    records = write_archive(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 300)
    print(f"{records} records in {sys.argv[1]}")
