// Where the reader stands in the transcript. It follows the end only while the
// reader is there; once moved up, the position is the reader's (F40).

const NEAR = 32;

export class Follow {
  /** @param {HTMLElement} log @param {HTMLElement} content @param {HTMLElement} toLatest */
  constructor(log, content, toLatest) {
    this.log = log;
    this.toLatest = toLatest;
    this.following = true;
    this.last = 0;
    log.addEventListener('scroll', () => this.scrolled(), { passive: true });
    toLatest.addEventListener('click', () => this.toEnd());
    const resized = new ResizeObserver(() => this.settle());
    resized.observe(log);
    resized.observe(content);
  }

  /** Only a move upwards by the reader lets go; growth of the content does not. */
  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    const atEnd = scrollHeight - scrollTop - clientHeight <= NEAR;
    if (atEnd) this.following = true;
    else if (scrollTop < this.last - 1) this.following = false;
    this.last = scrollTop;
    this.toLatest.hidden = this.following;
  }

  /** After the content changed. */
  settle() {
    if (!this.following) return;
    this.log.scrollTop = this.log.scrollHeight;
    this.last = this.log.scrollTop;
  }

  toEnd() {
    this.following = true;
    this.toLatest.hidden = true;
    this.settle();
  }

  /**
   * Changes content above the reader without moving what is read.
   * @param {() => void} change
   */
  keep(change) {
    const before = this.log.scrollHeight - this.log.scrollTop;
    change();
    this.log.scrollTop = this.log.scrollHeight - before;
    this.last = this.log.scrollTop;
  }
}
