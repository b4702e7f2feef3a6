#!/usr/bin/env python3
# tests/page/take_pictures.py: the pictures of the page in docs/pictures/. EBBD_PROGRAM and DEMO_MODEL say of what daemon and model;
# PYTHONPATH has tests/support.
#
#   take_pictures.py FOLDER
#
# Clients answer all the while, on two host cards that have some memory to spare, and one of them lends.
import pathlib
import sys
import threading
import time

from browser import DESK, Browser
from running_daemon import RunningDaemon, until

QUESTIONS = ["Of the whale", "In the beginning", "Fellow citizens of the Senate", "Politics, n."]
ANSWERING_S = 150


def keep_answering(daemon, question, over):
    seed = 0
    while not over.is_set():
        seed += 1
        daemon.answer_to(question, max_tokens=200, temperature=0.9, seed=seed)
        time.sleep(0.02)


def take(folder):
    daemon, browser, over = RunningDaemon(host_card_mib=16), Browser(), threading.Event()
    clients = [threading.Thread(target=keep_answering, args=(daemon, question, over)) for question in QUESTIONS[:2]]
    try:
        browser.resize(*DESK)
        browser.ready(daemon.url)
        for client in clients:
            client.start()
        time.sleep(ANSWERING_S)
        browser.lend(1, 12, "comfyui")
        until("the lease is shown", lambda: browser.texts("#leases .owner"))
        browser.set_options(max_tokens=110, temperature=0.7, seed=5)
        browser.run("document.querySelector('.options').open = false")
        browser.ask("Call me Ishmael. Some years ago")
        until("it has answered", lambda: browser.text(".turn.assistant .note") != "")
        time.sleep(20)
        browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        height = browser.run("return document.documentElement.scrollHeight")
        for scheme in ("light", "dark"):
            browser.prefer(color_scheme=scheme)
            browser.resize(DESK[0], min(height, 1280))
            time.sleep(1.5)
            browser.driver.save_screenshot(str(folder / f"page-{scheme}.png"))
        browser.prefer(color_scheme="light")
        browser.click("#cards article:nth-of-type(1) [data-do=lend]")
        browser.write("#lend-mib", "9")
        browser.write("#lend-owner", "blender")
        time.sleep(1)
        browser.driver.save_screenshot(str(folder / "page-lend.png"))
        browser.click("#lend-cancel")
        browser.resize(390, 1180, mobile=True)
        browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        time.sleep(1.5)
        browser.driver.save_screenshot(str(folder / "page-phone.png"))
    finally:
        over.set()
        for client in clients:
            client.join()
        browser.close()
        daemon.close()


if __name__ == "__main__":
    take(pathlib.Path(sys.argv[1]))
