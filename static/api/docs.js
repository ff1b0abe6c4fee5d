const cookie = (name) =>
  document.cookie
    .split("; ")
    .find((part) => part.startsWith(`${name}=`))
    ?.slice(name.length + 1) ?? "";

const element = document.getElementById("api");

window.SwaggerUIBundle({
  domNode: element,
  url: element.dataset.schema,
  deepLinking: true,
  docExpansion: "list",
  validatorUrl: null,
  requestInterceptor: (request) => {
    request.headers["X-CSRFToken"] = cookie("csrftoken");
    return request;
  },
});
