// Lets the site's search run on pages that are opened as files: there a browser starts no worker. This class runs the
// worker's script in a hidden frame instead, with the same messages. Reading the index takes a moment of the page's own
// time, so the script waits for a first click or key.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    onmessage = null
    onerror = null
    onmessageerror = null

    constructor(url) {
      super()
      this.url = url
      this.waiting = []
      this.begin = () => this.frame || this.start()
      for (const event of ["click", "keydown"]) document.addEventListener(event, this.begin, { once: true })
    }

    start() {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => this.answer(data)
      const script = inside.document.createElement("script")
      script.src = new URL(this.url, document.baseURI).href
      script.onload = () => {
        this.ready = true
        this.waiting.splice(0).forEach((data) => this.postMessage(data))
      }
      script.onerror = () => this.onerror && this.onerror(new Event("error"))
      inside.document.body.append(script)
    }

    answer(data) {
      const event = new MessageEvent("message", { data })
      if (this.onmessage) this.onmessage(event)
      this.dispatchEvent(event)
    }

    postMessage(data) {
      if (!this.ready) return void this.waiting.push(data)
      const inside = this.frame.contentWindow
      setTimeout(() => inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      for (const event of ["click", "keydown"]) document.removeEventListener(event, this.begin)
      if (this.frame) this.frame.remove()
    }
  }
}
