// A menu of the versions of this documentation, which versions.js beside their folders lists. Both are scripts, not data
// that is fetched, so that the menu works on pages that are opened as files.
{
  const versions = window.deltaplaneVersions ?? []
  const folder = new URL(".", document.currentScript.src)
  const own = decodeURIComponent(folder.pathname.split("/").at(-2))
  if (versions.length > 1) {
    const menu = document.createElement("select")
    menu.className = "version-selector"
    menu.setAttribute("aria-label", "Version of the documentation")
    for (const version of versions) menu.add(new Option(version, version, version === own, version === own))
    menu.addEventListener("change", () => {
      location.href = new URL(`../${encodeURIComponent(menu.value)}/index.html`, folder)
    })
    const title = document.querySelector(".md-header__title")
    if (title) title.after(menu)
    else document.body.prepend(menu)
  }
}
