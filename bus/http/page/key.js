// bus/http/page/key.js: asks for the key when the daemon wants one.
import { key } from "./api.js";
import { by_id, show_error } from "./dom.js";

export class key_dialog {
  #dialog = by_id("key-dialog");
  #tried = false;

  // on_key: there is a key to try.
  constructor(on_key) {
    by_id("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = by_id("key").value.trim();
      // A header takes no other characters; the daemon's keys have none.
      if (!/^[\x21-\x7e]+$/.test(text)) return show_error(by_id("key-error"), text ? "A key has no blanks and no letters beyond ASCII." : "Please enter the key.");
      key.set(text);
      this.#tried = true;
      on_key();
    });
    this.#dialog.addEventListener("cancel", (event) => event.preventDefault()); // without a key there is nothing to see behind it
    by_id("forget-key").addEventListener("click", () => {
      key.forget();
      location.reload();
    });
  }

  // The daemon refused: `why` in its words.
  ask(why) {
    show_error(by_id("key-error"), this.#tried || key.get() ? why : "");
    if (!this.#dialog.open) this.#dialog.showModal();
    by_id("key").select();
  }

  close() {
    this.#tried = false;
    by_id("key").value = "";
    show_error(by_id("key-error"), "");
    if (this.#dialog.open) this.#dialog.close();
    by_id("forget-key").hidden = !key.get();
  }
}
