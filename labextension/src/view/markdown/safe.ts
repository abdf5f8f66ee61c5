/**
 * The last word on HTML that came from a model, after the host's own sanitiser: nothing is fetched that nobody asked
 * for, and links leave the page in a tab of their own.
 */

const LOCAL = /^(?:data:image\/|blob:)/i;

/** `html` with remote images as links to them, without styles that load anything, and with links opening apart. */
export function quiet(html: string): string {
  // a document of DOMParser is inert: it fetches nothing while we look at it
  const document = new DOMParser().parseFromString(html, 'text/html');
  for (const image of document.querySelectorAll('img')) {
    const source = image.getAttribute('src') ?? '';
    image.removeAttribute('srcset');
    if (LOCAL.test(source)) {
      continue;
    }
    const link = document.createElement('a');
    link.textContent = image.getAttribute('alt') || source;
    if (/^https?:/i.test(source)) {
      link.href = source;
    }
    image.replaceWith(link);
  }
  for (const media of document.querySelectorAll(
    'video, audio, source, track, iframe, object, embed, link, style'
  )) {
    media.remove();
  }
  for (const styled of document.querySelectorAll('[style]')) {
    if (
      /url\s*\(|image-set|position\s*:\s*(?:fixed|sticky|absolute)/i.test(
        styled.getAttribute('style') ?? ''
      )
    ) {
      styled.removeAttribute('style');
    }
  }
  for (const link of document.querySelectorAll('a[href]')) {
    if (!link.getAttribute('href')?.startsWith('#')) {
      link.setAttribute('target', '_blank');
      link.setAttribute('rel', 'noopener noreferrer');
    }
  }
  return document.body.innerHTML;
}
